// Compares every op that has a backward with central finite differences of its own forward, in fp64. Include
// in one test file and instantiate OpsGradientSuite with implementations that run fp64.
#pragma once

#include <array>

#include "search/ops/memory_sizes.h"
#include "tests/conformance/ops/ops_fixture.h"

namespace autocfg {

class OpsGradientSuite : public testing::TestWithParam<OpsUnderTest> {
 protected:
  // Perturbs one element of x at a time and compares the change of `loss` with every stride-th element of
  // `grad`.
  static void ExpectGradient(const std::function<double(const Values&)>& loss, Values x, const Values& grad,
                             const std::string& what, std::size_t stride = 1) {
    constexpr double kStep = 1e-5;
    ASSERT_EQ(x.size(), grad.size());
    double scale = 0;
    for (double g : grad) scale = std::max(scale, std::abs(g));
    ASSERT_GT(scale, 0) << what << " is zero throughout";
    for (std::size_t i = 0; i < x.size(); i += stride) {
      const double keep = x[i];
      x[i] = keep + kStep;
      const double up = loss(x);
      x[i] = keep - kStep;
      const double down = loss(x);
      x[i] = keep;
      ASSERT_NEAR(grad[i], (up - down) / (2 * kStep), 1e-7 * scale) << what << '[' << i << ']';
    }
  }

  static double Dot(const Values& a, const Values& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }

  OnDevice dev_{GetParam()};
  Ops& ops_ = *dev_.ops;
  Stream& stream_ = *dev_.stream;
};

TEST_P(OpsGradientSuite, Matmul) {
  const std::int64_t m = 3, n = 4, k = 5;
  const Values a = Random(m * k, 1), b = Random(k * n, 2), w = Random(m * n, 3);
  const Tensor a_ = dev_.Put({m, k}, a), b_ = dev_.Put({k, n}, b), w_ = dev_.Put({m, n}, w),
               c = dev_.New({m, n});
  const Tensor da = dev_.New({m, k}), db = dev_.Put({k, n}, Values(k * n, 0));
  const auto loss = [&](const Tensor& input) {
    return [&, input](const Values& x) {
      dev_.Set(input, x);
      ops_.Matmul(a_, Transpose::kNo, b_, Transpose::kNo, c, false, stream_);
      return Dot(dev_.Get(c), w);
    };
  };
  ops_.Matmul(w_, Transpose::kNo, b_, Transpose::kYes, da, false, stream_);
  ops_.Matmul(a_, Transpose::kYes, w_, Transpose::kNo, db, true, stream_);
  ExpectGradient(loss(a_), a, dev_.Get(da), "da");
  dev_.Set(a_, a);
  ExpectGradient(loss(b_), b, dev_.Get(db), "db");
}

TEST_P(OpsGradientSuite, LayerNorm) {
  const std::int64_t rows = 4, width = 7;
  const Values x = Random(rows * width, 1), gamma = Random(width, 2), beta = Random(width, 3),
               w = Random(rows * width, 4);
  const Tensor x_ = dev_.Put({rows, width}, x), gamma_ = dev_.Put({width}, gamma),
               beta_ = dev_.Put({width}, beta);
  const Tensor y = dev_.New({rows, width}), mean = dev_.New({rows}), rstd = dev_.New({rows});
  const Tensor dx = dev_.New({rows, width}), dgamma = dev_.Put({width}, Values(width, 0));
  const Tensor dbeta = dev_.Put({width}, Values(width, 0));
  const auto loss = [&](const Tensor& input) {
    return [&, input](const Values& values) {
      dev_.Set(input, values);
      ops_.LayerNormForward(x_, gamma_, beta_, 1e-5, y, mean, rstd, stream_);
      return Dot(dev_.Get(y), w);
    };
  };
  loss(x_)(x);
  ops_.LayerNormBackward(dev_.Put({rows, width}, w), x_, gamma_, mean, rstd, dx, false, dgamma, dbeta, true,
                         stream_);
  ExpectGradient(loss(x_), x, dev_.Get(dx), "dx");
  dev_.Set(x_, x);
  ExpectGradient(loss(gamma_), gamma, dev_.Get(dgamma), "dgamma");
  dev_.Set(gamma_, gamma);
  ExpectGradient(loss(beta_), beta, dev_.Get(dbeta), "dbeta");
}

// y = a b + bias.
TEST_P(OpsGradientSuite, MatmulBias) {
  const std::int64_t m = 10, n = 4, k = 5;
  const Values a = Random(m * k, 1), b = Random(k * n, 2), bias = Random(n, 3), w = Random(m * n, 4);
  const Tensor a_ = dev_.Put({m, k}, a), b_ = dev_.Put({k, n}, b), bias_ = dev_.Put({n}, bias),
               c = dev_.New({m, n});
  const Tensor db = dev_.Put({k, n}, Values(k * n, 0)), dbias = dev_.Put({n}, Values(n, 0));
  const auto loss = [&](const Tensor& input) {
    return [&, input](const Values& x) {
      dev_.Set(input, x);
      ops_.MatmulBias(a_, b_, bias_, c, stream_);
      return Dot(dev_.Get(c), w);
    };
  };
  ops_.MatmulBiasGradient(a_, dev_.Put({m, n}, w), db, dbias, true, stream_);
  ExpectGradient(loss(b_), b, dev_.Get(db), "db");
  dev_.Set(b_, b);
  ExpectGradient(loss(bias_), bias, dev_.Get(dbias), "dbias");
}

// y = a b + bias + residual. The gradient of the residual equals that of y.
TEST_P(OpsGradientSuite, MatmulResidual) {
  const std::int64_t m = 6, n = 4, k = 5;
  const Values a = Random(m * k, 1), b = Random(k * n, 2), bias = Random(n, 3), residual = Random(m * n, 4),
               w = Random(m * n, 5);
  const Tensor a_ = dev_.Put({m, k}, a), b_ = dev_.Put({k, n}, b), bias_ = dev_.Put({n}, bias),
               residual_ = dev_.Put({m, n}, residual);
  const Tensor c = dev_.New({m, n}), db = dev_.Put({k, n}, Values(k * n, 0)),
               dbias = dev_.Put({n}, Values(n, 0));
  const auto loss = [&](const Tensor& input) {
    return [&, input](const Values& x) {
      dev_.Set(input, x);
      ops_.MatmulResidual(a_, b_, bias_, residual_, c, stream_);
      return Dot(dev_.Get(c), w);
    };
  };
  ops_.MatmulBiasGradient(a_, dev_.Put({m, n}, w), db, dbias, true, stream_);
  ExpectGradient(loss(b_), b, dev_.Get(db), "db");
  dev_.Set(b_, b);
  ExpectGradient(loss(bias_), bias, dev_.Get(dbias), "dbias");
  dev_.Set(bias_, bias);
  ExpectGradient(loss(residual_), residual, w, "dresidual");
}

TEST_P(OpsGradientSuite, BiasResidual) {
  const std::int64_t rows = 10, width = 3;
  const Values y = Random(rows * width, 1), bias = Random(width, 2), residual = Random(rows * width, 3);
  const Values w = Random(rows * width, 4);
  const Tensor y_ = dev_.New({rows, width}), bias_ = dev_.New({width}), residual_ = dev_.New({rows, width});
  Values dbias(width, 0.0);
  for (std::size_t i = 0; i < w.size(); ++i) dbias[i % width] += w[i];
  const auto loss = [&](const Values& b, const Values& r) {
    dev_.Set(y_, y);
    dev_.Set(bias_, b);
    dev_.Set(residual_, r);
    ops_.BiasResidual(y_, bias_, residual_, stream_);
    return Dot(dev_.Get(y_), w);
  };
  ExpectGradient([&](const Values& b) { return loss(b, residual); }, bias, dbias, "dbias");
  ExpectGradient([&](const Values& r) { return loss(bias, r); }, residual, w, "dresidual");
}

// A feed-forward block: y = f(x b1 + bias) b2, with the gradient of each operand.
TEST_P(OpsGradientSuite, MatmulActivationOfEveryPlainKindWithAndWithoutBias) {
  const std::int64_t m = 9, k = 4, n = 5, out = 3;
  for (int i = 0; i < kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    if (IsGated(activation)) continue;
    const std::string name(Name(activation));
    for (bool with_bias : {true, false}) {
      const Values x = Random(m * k, 1, -2, 2), b1 = Random(k * n, 2), bias = Random(n, 3),
                   b2 = Random(n * out, 4), w = Random(m * out, 5);
      const Tensor x_ = dev_.Put({m, k}, x), b1_ = dev_.Put({k, n}, b1), bias_ = dev_.Put({n}, bias),
                   b2_ = dev_.Put({n, out}, b2);
      const Tensor pre = dev_.New({m, n}), hidden = dev_.New({m, n}), y = dev_.New({m, out});
      const Tensor dpre = dev_.New({m, n}), dx = dev_.New({m, k}), db1 = dev_.Put({k, n}, Values(k * n, 0));
      const Tensor dbias = dev_.Put({n}, Values(n, 0));
      const auto loss = [&](const Tensor& input) {
        return [&, input](const Values& values) {
          dev_.Set(input, values);
          ops_.MatmulActivation(activation, x_, b1_, with_bias ? bias_ : Tensor{}, pre, hidden, stream_);
          ops_.Matmul(hidden, Transpose::kNo, b2_, Transpose::kNo, y, false, stream_);
          return Dot(dev_.Get(y), w);
        };
      };
      loss(x_)(x);
      ops_.MatmulActivationBackward(activation, dev_.Put({m, out}, w), b2_, pre, dpre, stream_);
      ops_.MatmulBiasGradient(x_, dpre, db1, dbias, true, stream_);
      ops_.Matmul(dpre, Transpose::kNo, b1_, Transpose::kYes, dx, false, stream_);
      ExpectGradient(loss(x_), x, dev_.Get(dx), "dx of " + name);
      dev_.Set(x_, x);
      ExpectGradient(loss(b1_), b1, dev_.Get(db1), "db1 of " + name);
      dev_.Set(b1_, b1);
      if (with_bias) ExpectGradient(loss(bias_), bias, dev_.Get(dbias), "dbias of " + name);
    }
  }
}

TEST_P(OpsGradientSuite, RmsNorm) {
  const std::int64_t rows = 4, width = 7;
  const Values x = Random(rows * width, 1), gamma = Random(width, 2), w = Random(rows * width, 4);
  const Tensor x_ = dev_.Put({rows, width}, x), gamma_ = dev_.Put({width}, gamma);
  const Tensor y = dev_.New({rows, width}), rstd = dev_.New({rows});
  const Tensor dx = dev_.New({rows, width}), dgamma = dev_.Put({width}, Values(width, 0));
  const auto loss = [&](const Tensor& input) {
    return [&, input](const Values& values) {
      dev_.Set(input, values);
      ops_.RmsNormForward(x_, gamma_, 1e-5, y, rstd, stream_);
      return Dot(dev_.Get(y), w);
    };
  };
  loss(x_)(x);
  ops_.RmsNormBackward(dev_.Put({rows, width}, w), x_, gamma_, rstd, dx, false, dgamma, true, stream_);
  ExpectGradient(loss(x_), x, dev_.Get(dx), "dx");
  dev_.Set(x_, x);
  ExpectGradient(loss(gamma_), gamma, dev_.Get(dgamma), "dgamma");
}

TEST_P(OpsGradientSuite, EveryGatedActivationWithAndWithoutBias) {
  const std::int64_t rows = 9, width = 5, wide = 2 * width;
  for (int i = 0; i < kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    if (!IsGated(activation)) continue;
    const std::string name(Name(activation));
    const Values x = Random(rows * wide, 1, -3, 3), bias = Random(wide, 2), w = Random(rows * width, 3);
    const Tensor x_ = dev_.New({rows, wide}), y = dev_.New({rows, width}), dx = dev_.New({rows, wide});
    const Tensor dy = dev_.Put({rows, width}, w), bias_ = dev_.New({wide});
    for (bool with_bias : {true, false}) {
      const auto loss = [&](const Values& vx, const Values& vb) {
        dev_.Set(x_, vx);
        dev_.Set(bias_, vb);
        ops_.ActivationForward(activation, x_, with_bias ? bias_ : Tensor{}, y, stream_);
        return Dot(dev_.Get(y), w);
      };
      loss(x, bias);
      ops_.ActivationBackward(activation, x_, dy, dx, stream_);
      const Values by_x = dev_.Get(dx);
      ExpectGradient([&](const Values& v) { return loss(v, bias); }, x, by_x, "dx of " + name);
      if (!with_bias) continue;
      Values by_bias(static_cast<std::size_t>(wide), 0.0);
      for (std::size_t e = 0; e < by_x.size(); ++e) by_bias[e % wide] += by_x[e];
      ExpectGradient([&](const Values& v) { return loss(x, v); }, bias, by_bias, "dbias of " + name);
    }
  }
}

TEST_P(OpsGradientSuite, NormsOfHeads) {
  const std::int64_t tokens = 4, heads = 4, kv_heads = 2, dim = 3, row = (heads + 2 * kv_heads) * dim;
  const Values qkv = Random(tokens * row, 1), w = Random(tokens * row, 2), gamma_q = Random(dim, 3),
               gamma_k = Random(dim, 4);
  const Tensor qkv_ = dev_.New({tokens, row}), q = dev_.New({dim}), k = dev_.New({dim}),
               raw = dev_.New({tokens, (heads + kv_heads) * dim}),
               rstd = dev_.New({tokens, heads + kv_heads});
  const auto loss = [&](const Values& x, const Values& of_q, const Values& of_k) {
    dev_.Set(qkv_, x);
    dev_.Set(q, of_q);
    dev_.Set(k, of_k);
    ops_.HeadNormForward(qkv_, heads, kv_heads, q, k, 1e-3, raw, rstd, stream_);
    return Dot(dev_.Get(qkv_), w);
  };
  loss(qkv, gamma_q, gamma_k);
  const Tensor dqkv = dev_.Put({tokens, row}, w), dq = dev_.New({dim}), dk = dev_.New({dim});
  ops_.HeadNormBackward(dqkv, heads, kv_heads, raw, q, k, rstd, dq, dk, false, stream_);
  const Values by_qkv = dev_.Get(dqkv), by_q = dev_.Get(dq), by_k = dev_.Get(dk);
  ExpectGradient([&](const Values& v) { return loss(v, gamma_q, gamma_k); }, qkv, by_qkv, "dqkv");
  ExpectGradient([&](const Values& v) { return loss(qkv, v, gamma_k); }, gamma_q, by_q, "dgamma_q");
  ExpectGradient([&](const Values& v) { return loss(qkv, gamma_q, v); }, gamma_k, by_k, "dgamma_k");
}

TEST_P(OpsGradientSuite, NormsOfAllQueriesAndKeys) {
  const std::int64_t tokens = 3, heads = 4, kv_heads = 2, dim = 3, row = (heads + 2 * kv_heads) * dim,
                     queries = heads * dim, keys = kv_heads * dim;
  const Values qkv = Random(tokens * row, 1), w = Random(tokens * row, 2), gamma_q = Random(queries, 3),
               gamma_k = Random(keys, 4);
  const Tensor qkv_ = dev_.New({tokens, row}), q = dev_.New({queries}), k = dev_.New({keys}),
               raw = dev_.New({tokens, queries + keys}), rstd = dev_.New({tokens, 2});
  const auto loss = [&](const Values& x, const Values& of_q, const Values& of_k) {
    dev_.Set(qkv_, x);
    dev_.Set(q, of_q);
    dev_.Set(k, of_k);
    ops_.QkSquares(qkv_, heads, kv_heads, rstd, stream_);
    ops_.QkNormForward(qkv_, heads, kv_heads, 1, q, k, 1e-3, raw, rstd, stream_);
    return Dot(dev_.Get(qkv_), w);
  };
  loss(qkv, gamma_q, gamma_k);
  const Tensor dqkv = dev_.Put({tokens, row}, w), dq = dev_.New({queries}), dk = dev_.New({keys}),
               products = dev_.New({tokens, 2});
  ops_.QkProducts(dqkv, heads, kv_heads, raw, q, k, rstd, products, stream_);
  ops_.QkNormBackward(dqkv, heads, kv_heads, 1, raw, q, k, rstd, products, dq, dk, false, stream_);
  const Values by_qkv = dev_.Get(dqkv), by_q = dev_.Get(dq), by_k = dev_.Get(dk);
  ExpectGradient([&](const Values& v) { return loss(v, gamma_q, gamma_k); }, qkv, by_qkv, "dqkv");
  ExpectGradient([&](const Values& v) { return loss(qkv, v, gamma_k); }, gamma_q, by_q, "dgamma_q");
  ExpectGradient([&](const Values& v) { return loss(qkv, gamma_q, v); }, gamma_k, by_k, "dgamma_k");
}

TEST_P(OpsGradientSuite, RopesInverseIsItsGradient) {
  const std::int64_t batch = 2, seq = 19, heads = 2, dim = 6, width = heads * dim + 3;
  const Values x = Random(batch * seq * width, 1), w = Random(batch * seq * width, 2);
  for (const std::int64_t rotary : {dim, dim - 2}) {
    const RotaryFrequencies scaled{30, Values(rotary / 2, 0.4), 1.3};
    const Tensor x_ = dev_.New({batch, seq, width}), dx = dev_.Put({batch, seq, width}, w);
    const auto loss = [&](const Values& values) {
      dev_.Set(x_, values);
      ops_.Rope(x_, heads, dim, rotary, scaled, false, stream_);
      return Dot(dev_.Get(x_), w);
    };
    ops_.Rope(dx, heads, dim, rotary, scaled, true, stream_);
    ExpectGradient(loss, x, dev_.Get(dx), "dx, " + std::to_string(rotary) + " dims");
  }
}

TEST_P(OpsGradientSuite, Attention) {
  struct Case {
    std::int64_t batch, seq, heads, dim, kv_heads;
    double softcap = 0;
    std::int64_t window = 0;
  };
  // Those of 131 tokens have two blocks of rows, so only some of their elements are perturbed.
  for (const auto& [batch, seq, heads, dim, kv_heads, softcap, window] : {Case{2, 5, 2, 3, 2},
                                                                          {1, 131, 1, 3, 1},
                                                                          {2, 5, 4, 3, 2},
                                                                          {1, 4, 3, 2, 1},
                                                                          {1, 131, 2, 3, 1},
                                                                          {2, 5, 4, 3, 2, 0.8},
                                                                          {2, 7, 2, 3, 1, 0, 3},
                                                                          {1, 131, 2, 3, 1, 2, 40}}) {
    const AttentionForm form{.heads = heads, .kv_heads = kv_heads, .softcap = softcap, .window = window};
    const std::int64_t width = heads * dim, row = (heads + 2 * kv_heads) * dim;
    const Values qkv = Random(batch * seq * row, 1, -2, 2), w = Random(batch * seq * width, 2);
    const Tensor qkv_ = dev_.New({batch, seq, row}), out = dev_.New({batch, seq, width});
    const Tensor lse = dev_.New({batch, heads, seq}), dqkv = dev_.New({batch, seq, row});
    const Tensor workspace = dev_.New({AttentionWorkspaceElements(seq, dim)});
    const Tensor probabilities = dev_.New({batch, heads, seq, seq}),
                 dscores = dev_.New({batch, heads, seq, seq});
    for (const bool unfused : {false, true}) {
      const auto loss = [&](const Values& values) {
        dev_.Set(qkv_, values);
        if (unfused) {
          ops_.UnfusedAttentionForward(qkv_, form, probabilities, out, stream_);
        } else {
          ops_.AttentionForward(qkv_, form, out, lse, workspace, stream_);
        }
        return Dot(dev_.Get(out), w);
      };
      loss(qkv);
      const Tensor dout = dev_.Put({batch, seq, width}, w);
      if (unfused) {
        ops_.UnfusedAttentionBackward(qkv_, form, probabilities, out, dout, dqkv, dscores, stream_);
      } else {
        ops_.AttentionBackward(qkv_, form, out, lse, dout, dqkv, workspace, stream_);
      }
      ExpectGradient(loss, qkv, dev_.Get(dqkv), unfused ? "dqkv, unfused" : "dqkv", seq > 100 ? 13 : 1);
    }
  }
}

TEST_P(OpsGradientSuite, EmbeddingAndPosition) {
  const std::int64_t batch = 2, seq = 3, width = 4, vocab = 5, positions = 3;
  const Values table = Random(vocab * width, 1), wpe = Random(positions * width, 2),
               w = Random(batch * seq * width, 3);
  const Tensor tokens = dev_.PutTokens({2, 6, 2, 3, 1, 0}), table_ = dev_.New({vocab, width});
  const Tensor wpe_ = dev_.New({positions, width}), y = dev_.New({batch * seq, width});
  const auto loss = [&](const Values& vt, const Values& vp) {
    dev_.Set(table_, vt);
    dev_.Set(wpe_, vp);
    ops_.EmbeddingForward(tokens, table_, 1, y, stream_);
    ops_.PositionForward(y, seq, 0, wpe_, stream_);
    return Dot(dev_.Get(y), w);
  };
  const Tensor dtable = dev_.Put({vocab, width}, Values(vocab * width, 0)),
               dy = dev_.Put({batch * seq, width}, w);
  const Tensor dwpe = dev_.Put({positions, width}, Values(positions * width, 0));
  ops_.EmbeddingBackward(tokens, dy, 1, dtable, true, stream_);
  ops_.PositionBackward(dy.Reshape({batch, seq, width}), dwpe, true, stream_);
  ExpectGradient([&](const Values& v) { return loss(v, wpe); }, table, dev_.Get(dtable), "dtable");
  ExpectGradient([&](const Values& v) { return loss(table, v); }, wpe, dev_.Get(dwpe), "dwpe");
}

TEST_P(OpsGradientSuite, CrossEntropy) {
  const std::int64_t rows = 4, vocab = 9, valid = 7;
  const Values logits = Random(rows * vocab, 1, -3, 3);
  const Tensor targets = dev_.PutTokens({0, 6, 3, 3}), logits_ = dev_.New({rows, vocab});
  const Tensor loss_ = dev_.New({1}, DType::kF64);
  for (const double softcap : {0.0, 2.0}) {
    const auto loss = [&](const Values& values) {
      dev_.Set(logits_, values);
      dev_.Set(loss_, {0});
      ops_.CrossEntropy(logits_, {valid, softcap}, targets, 1.0 / 3, loss_, stream_);
      return dev_.Get(loss_)[0] / 3;
    };
    loss(logits);
    ExpectGradient(loss, logits, dev_.Get(logits_), "dlogits");
  }
}

}  // namespace autocfg
