// Naive definitions of the ops in double precision: slow, and independent of every implementation. Pure
// functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/ops.h"

namespace autocfg::reference {

using Values = std::vector<double>;

inline Values Zeros(std::int64_t n) { return Values(static_cast<std::size_t>(n), 0.0); }

// c += op(a) op(b).
inline void Matmul(std::int64_t m, std::int64_t n, std::int64_t k, const Values& a, bool ta, const Values& b,
                   bool tb, Values& c) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l)
        c[i * n + j] += a[ta ? l * m + i : i * k + l] * b[tb ? j * k + l : l * n + j];
    }
  }
}

struct Norm {
  Values y, mean, rstd;
};

inline Norm LayerNorm(std::int64_t rows, std::int64_t width, const Values& x, const Values& gamma,
                      const Values& beta, double eps) {
  Norm norm{Zeros(rows * width), Zeros(rows), Zeros(rows)};
  for (std::int64_t t = 0; t < rows; ++t) {
    double mean = 0, var = 0;
    for (std::int64_t i = 0; i < width; ++i) mean += x[t * width + i] / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i)
      var += std::pow(x[t * width + i] - mean, 2) / static_cast<double>(width);
    norm.mean[t] = mean;
    norm.rstd[t] = 1 / std::sqrt(var + eps);
    for (std::int64_t i = 0; i < width; ++i) {
      norm.y[t * width + i] = (x[t * width + i] - mean) * norm.rstd[t] * gamma[i] + beta[i];
    }
  }
  return norm;
}

struct NormGradients {
  Values dx, dgamma, dbeta;
};

// Uses the whole Jacobian of the normalized row n: dn_j / dx_i = rstd ([i = j] - 1/W - n_i n_j / W).
inline NormGradients LayerNormBackward(std::int64_t rows, std::int64_t width, const Values& dy,
                                       const Values& x, const Values& gamma, const Norm& norm) {
  NormGradients g{Zeros(rows * width), Zeros(width), Zeros(width)};
  for (std::int64_t t = 0; t < rows; ++t) {
    Values n = Zeros(width);
    for (std::int64_t i = 0; i < width; ++i) n[i] = (x[t * width + i] - norm.mean[t]) * norm.rstd[t];
    for (std::int64_t j = 0; j < width; ++j) {
      const double up = dy[t * width + j];
      g.dgamma[j] += up * n[j];
      g.dbeta[j] += up;
      for (std::int64_t i = 0; i < width; ++i) {
        const double jacobian = (i == j ? 1.0 : 0.0) - (1 + n[i] * n[j]) / static_cast<double>(width);
        g.dx[t * width + i] += up * gamma[j] * jacobian * norm.rstd[t];
      }
    }
  }
  return g;
}

inline Norm RmsNorm(std::int64_t rows, std::int64_t width, const Values& x, const Values& gamma, double eps) {
  Norm norm{Zeros(rows * width), {}, Zeros(rows)};
  for (std::int64_t t = 0; t < rows; ++t) {
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i)
      squares += std::pow(x[t * width + i], 2) / static_cast<double>(width);
    norm.rstd[t] = 1 / std::sqrt(squares + eps);
    for (std::int64_t i = 0; i < width; ++i)
      norm.y[t * width + i] = x[t * width + i] * norm.rstd[t] * gamma[i];
  }
  return norm;
}

// Uses the whole Jacobian of n = x rstd: dn_j / dx_i = rstd ([i = j] - n_i n_j / W). No dbeta.
inline NormGradients RmsNormBackward(std::int64_t rows, std::int64_t width, const Values& dy, const Values& x,
                                     const Values& gamma, const Norm& norm) {
  NormGradients g{Zeros(rows * width), Zeros(width), {}};
  for (std::int64_t t = 0; t < rows; ++t) {
    Values n = Zeros(width);
    for (std::int64_t i = 0; i < width; ++i) n[i] = x[t * width + i] * norm.rstd[t];
    for (std::int64_t j = 0; j < width; ++j) {
      g.dgamma[j] += dy[t * width + j] * n[j];
      for (std::int64_t i = 0; i < width; ++i) {
        const double jacobian = (i == j ? 1.0 : 0.0) - n[i] * n[j] / static_cast<double>(width);
        g.dx[t * width + i] += dy[t * width + j] * gamma[j] * jacobian * norm.rstd[t];
      }
    }
  }
  return g;
}

struct HeadNormSizes {
  std::int64_t tokens, heads, kv_heads, dim;
  std::int64_t Normed() const { return heads + kv_heads; }
  std::int64_t Row() const { return (heads + 2 * kv_heads) * dim; }  // of qkv
};

struct HeadNorm {
  Values qkv, raw, rstd;            // of the forward
  Values dqkv, dgamma_q, dgamma_k;  // of the backward
};

// Computes both directions, of each head as a row of its own. The gradient of `raw` multiplies by the whole
// Jacobian, as above.
inline HeadNorm NormOfHeads(const HeadNormSizes& z, const Values& qkv, const Values& gamma_q,
                            const Values& gamma_k, double eps, const Values& dqkv) {
  HeadNorm r{qkv, {}, {}, dqkv, Zeros(z.dim), Zeros(z.dim)};
  const auto d = static_cast<double>(z.dim);
  for (std::int64_t t = 0; t < z.tokens; ++t) {
    for (std::int64_t h = 0; h < z.Normed(); ++h) {
      const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(t * z.Row() + h * z.dim + i); };
      const Values& gamma = h < z.heads ? gamma_q : gamma_k;
      Values& dgamma = h < z.heads ? r.dgamma_q : r.dgamma_k;
      double squares = 0;
      for (std::int64_t i = 0; i < z.dim; ++i) squares += qkv[at(i)] * qkv[at(i)];
      const double rstd = 1 / std::sqrt(squares / d + eps);
      r.rstd.push_back(rstd);
      for (std::int64_t i = 0; i < z.dim; ++i) {
        r.raw.push_back(qkv[at(i)]);
        r.qkv[at(i)] = qkv[at(i)] * rstd * gamma[i];
        dgamma[i] += dqkv[at(i)] * qkv[at(i)] * rstd;
        r.dqkv[at(i)] = 0;
        for (std::int64_t j = 0; j < z.dim; ++j) {
          const double jacobian = rstd * ((i == j ? 1.0 : 0.0) - qkv[at(i)] * qkv[at(j)] * rstd * rstd / d);
          r.dqkv[at(i)] += jacobian * gamma[j] * dqkv[at(j)];
        }
      }
    }
  }
  return r;
}

// Computes the rotation with complex numbers: element i of a head, with its partner i + rotary / 2, is
// multiplied by factor exp(i angle).
inline void Rope(std::int64_t batch, std::int64_t seq, std::int64_t width, std::int64_t heads,
                 std::int64_t dim, std::int64_t rotary, const RotaryFrequencies& given, double sign,
                 Values& qkv) {
  for (std::int64_t row = 0; row < batch * seq; ++row) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < rotary / 2; ++i) {
        double& re = qkv[row * width + h * dim + i];
        double& im = qkv[row * width + h * dim + i + rotary / 2];
        const double plain =
            std::pow(given.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary));
        const double frequency = given.scales.empty() ? plain : plain * given.scales[i];
        const double angle = sign * static_cast<double>(row % seq) * frequency;
        const std::complex<double> turned = std::complex<double>(re, im) * std::polar(given.factor, angle);
        re = turned.real();
        im = turned.imag();
      }
    }
  }
}

inline double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

inline double GeluSlope(double x) {
  const double c = std::sqrt(2 / std::acos(-1.0));
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

// A plain or gated activation f, and its slope.
inline double ActivationValue(Activation activation, double x) {
  switch (activation) {
    case Activation::kGelu:
    case Activation::kGeGlu: return Gelu(x);
    case Activation::kGeluErf: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kRelu: return x > 0 ? x : 0;
    case Activation::kSquaredRelu: return x > 0 ? x * x : 0;
    case Activation::kSwiGlu: return x / (1 + std::exp(-x));
  }
  return std::nan("");
}

inline double ActivationSlope(Activation activation, double x) {
  const double pi = std::acos(-1.0), e = std::exp(-x);
  switch (activation) {
    case Activation::kGelu:
    case Activation::kGeGlu: return GeluSlope(x);
    case Activation::kGeluErf:
      return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * pi);
    case Activation::kRelu: return x > 0 ? 1 : 0;
    case Activation::kSquaredRelu: return x > 0 ? 2 * x : 0;
    case Activation::kSwiGlu: return std::isinf(e) ? 0 : 1 / (1 + e) + x * e / ((1 + e) * (1 + e));
  }
  return std::nan("");
}

struct AttentionSizes {
  std::int64_t batch, seq, heads, dim, kv_heads;
  double scale = 0;                              // of the scores; 0: 1 / sqrt(dim)
  std::int64_t alibi_heads = 0, first_head = 0;  // ALiBi: heads of the model, and the first one of `heads`
  double softcap = 0;                            // of the scores; 0: none
  std::int64_t window = 0;                       // keys of a query; 0: all up to it
  std::int64_t Width() const { return heads * dim; }
  std::int64_t Row() const { return (heads + 2 * kv_heads) * dim; }  // of qkv
  std::int64_t Tokens() const { return batch * seq; }
};

struct Attention {
  Values out, lse, dqkv;
  Values probabilities = {};  // [B,N,S,S]
};

// The slopes of ALiBi as its paper's code computes them (Press et al. 2022; get_slopes in
// github.com/ofirpress/ attention_with_linear_biases): a geometric row if the heads are a power of two; else
// that of the next lower power, and then every second slope of the next higher one.
inline Values PaperSlopes(std::int64_t heads) {
  const auto is_power = [](std::int64_t n) { return (n & (n - 1)) == 0; };
  if (is_power(heads)) {
    const double start = std::pow(2.0, -std::pow(2.0, -(std::log2(static_cast<double>(heads)) - 3)));
    Values slopes{start};
    while (static_cast<std::int64_t>(slopes.size()) < heads) slopes.push_back(slopes.back() * start);
    return slopes;
  }
  std::int64_t lower = heads;
  while (!is_power(lower)) --lower;
  Values slopes = PaperSlopes(lower);
  const Values others = PaperSlopes(2 * lower);
  for (std::size_t i = 0; static_cast<std::int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(others[i]);
  return slopes;
}

// Computes the forward, and the backward from dout.
inline Attention CausalAttention(const AttentionSizes& z, const Values& qkv, const Values& dout) {
  const std::int64_t width = z.Width();
  Attention r{Zeros(z.Tokens() * width), Zeros(z.batch * z.heads * z.seq), Zeros(z.Tokens() * z.Row()),
              Zeros(z.batch * z.heads * z.seq * z.seq)};
  const double scale = z.scale == 0 ? 1 / std::sqrt(static_cast<double>(z.dim)) : z.scale;
  const Values slopes = z.alibi_heads == 0 ? Zeros(z.heads) : PaperSlopes(z.alibi_heads);
  for (std::int64_t b = 0; b < z.batch; ++b) {
    for (std::int64_t n = 0; n < z.heads; ++n) {
      const double slope = slopes.at(static_cast<std::size_t>(z.first_head + n));
      // Returns the index of element d of part (0 q, 1 k, 2 v) of token s.
      const auto at = [&](std::int64_t part, std::int64_t s, std::int64_t d) {
        const std::int64_t kv = n * z.kv_heads / z.heads;
        const std::int64_t head = part == 0 ? n : z.heads + (part - 1) * z.kv_heads + kv;
        return (b * z.seq + s) * z.Row() + head * z.dim + d;
      };
      const auto out_at = [&](std::int64_t s, std::int64_t d) {
        return (b * z.seq + s) * width + n * z.dim + d;
      };
      for (std::int64_t i = 0; i < z.seq; ++i) {
        Values score = Zeros(i + 1), p = Zeros(i + 1), dp = Zeros(i + 1), cap_slope(score.size(), 1.0);
        for (std::int64_t j = 0; j <= i; ++j) {
          for (std::int64_t d = 0; d < z.dim; ++d) score[j] += scale * qkv[at(0, i, d)] * qkv[at(1, j, d)];
          if (z.softcap != 0) {
            const double share = std::tanh(score[j] / z.softcap);
            score[j] = z.softcap * share;
            cap_slope[j] = 1 - share * share;
          }
          score[j] -= slope * static_cast<double>(i - j);
          if (z.window != 0 && i - j >= z.window) score[j] = -std::numeric_limits<double>::infinity();
        }
        const double max = *std::max_element(score.begin(), score.end());
        double sum = 0;
        for (double s : score) sum += std::exp(s - max);
        r.lse[(b * z.heads + n) * z.seq + i] = max + std::log(sum);
        double expected = 0;  // sum over j of p dp
        for (std::int64_t j = 0; j <= i; ++j) {
          p[j] = std::exp(score[j] - max) / sum;
          r.probabilities[((b * z.heads + n) * z.seq + i) * z.seq + j] = p[j];
          for (std::int64_t d = 0; d < z.dim; ++d) {
            r.out[out_at(i, d)] += p[j] * qkv[at(2, j, d)];
            dp[j] += dout[out_at(i, d)] * qkv[at(2, j, d)];
            r.dqkv[at(2, j, d)] += p[j] * dout[out_at(i, d)];
          }
          expected += p[j] * dp[j];
        }
        for (std::int64_t j = 0; j <= i; ++j) {
          const double dscore = p[j] * (dp[j] - expected) * scale * cap_slope[j];
          for (std::int64_t d = 0; d < z.dim; ++d) {
            r.dqkv[at(0, i, d)] += dscore * qkv[at(1, j, d)];
            r.dqkv[at(1, j, d)] += dscore * qkv[at(0, i, d)];
          }
        }
      }
    }
  }
  return r;
}

struct CrossEntropy {
  double loss = 0;  // sum over the rows
  Values dlogits;   // of scale * loss
};

// `softcap`: c, where logits x count as c tanh(x / c), or 0.
inline CrossEntropy SoftmaxCrossEntropy(std::int64_t rows, std::int64_t vocab, std::int64_t valid,
                                        const Values& logits, const std::vector<std::int32_t>& targets,
                                        double scale, double softcap = 0) {
  CrossEntropy r{0, Zeros(rows * vocab)};
  Values capped = logits;
  if (softcap != 0) {
    for (double& x : capped) x = softcap * std::tanh(x / softcap);
  }
  for (std::int64_t t = 0; t < rows; ++t) {
    const double* x = capped.data() + t * vocab;
    const double max = *std::max_element(x, x + valid);
    double sum = 0;
    for (std::int64_t i = 0; i < valid; ++i) sum += std::exp(x[i] - max);
    r.loss += std::log(sum) - (x[targets[t]] - max);
    for (std::int64_t i = 0; i < valid; ++i) {
      r.dlogits[t * vocab + i] = scale * (std::exp(x[i] - max) / sum - (i == targets[t] ? 1.0 : 0.0));
      if (softcap != 0) r.dlogits[t * vocab + i] *= 1 - x[i] * x[i] / (softcap * softcap);
    }
  }
  return r;
}

// Runs one step, in the order of the paper's algorithm 2.
inline void AdamW(Values& p, const Values& grad, Values& m, Values& v, double weight_decay, double grad_scale,
                  const UpdateParams& h) {
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = grad[i] * grad_scale;
    m[i] = h.beta1 * m[i] + (1 - h.beta1) * g;
    v[i] = h.beta2 * v[i] + (1 - h.beta2) * g * g;
    const double m_hat = m[i] / h.bias_correction1, v_hat = v[i] / h.bias_correction2;
    p[i] -= h.lr * (m_hat / (std::sqrt(v_hat) + h.eps) + weight_decay * p[i]);
  }
}

// Runs one step as PyTorch's SGD does, without dampening; m is 0 before the first.
inline void Sgd(Values& p, const Values& grad, Values& m, double weight_decay, double grad_scale,
                const UpdateParams& h) {
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double g = grad[i] * grad_scale + weight_decay * p[i];
    m[i] = h.momentum * m[i] + g;
    p[i] -= h.lr * (h.momentum > 0 ? m[i] : g);
  }
}

}  // namespace autocfg::reference
