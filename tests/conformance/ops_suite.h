// The contract of every Ops that computes. Each op is compared with the definitions in ops_reference.h, on
// seeded random inputs, with outputs poisoned with NaN first, at even and odd sizes. Include in one test file
// and instantiate OpsSuite.
#pragma once

#include <array>

#include "search/ops/memory_sizes.h"
#include "tests/conformance/ops_fixture.h"
#include "tests/conformance/ops_reference.h"

namespace autocfg {

class OpsSuite : public testing::TestWithParam<OpsUnderTest> {
 protected:
  // `factor` is for arithmetic that rounds more than a sum does. If the element type is narrow, a result in
  // it has been rounded once more, and so have `narrow` intermediate results of about the size of the largest
  // element.
  void Near(const Tensor& got, const Values& want, const std::string& what, double factor = 1,
            double narrow = 0) {
    ExpectNear(dev_.Get(got), want, GetParam().tolerance * factor + NarrowRounding(dev_.type) * narrow, what,
               NarrowRounding(got.dtype));
  }

  // Returns the value rounded to the element type.
  double Rounded(double value) const { return RoundTo(dev_.type, value); }

  // Returns inputs that the element type represents exactly, so that the reference uses the same values.
  Values Random(std::int64_t n, unsigned seed, double low = -1, double high = 1) const {
    Values values = autocfg::Random(n, seed, low, high);
    for (double& v : values) v = Rounded(v);
    return values;
  }

  OnDevice dev_{GetParam()};
  Ops& ops_ = *dev_.ops;
  Stream& stream_ = *dev_.stream;
};

TEST_P(OpsSuite, MatmulInEveryForm) {
  const std::array<std::array<std::int64_t, 3>, 5> sizes{
      {{1, 1, 1}, {3, 5, 7}, {64, 64, 64}, {17, 130, 33}, {1, 9, 300}}};
  for (const auto& [m, n, k] : sizes) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        for (bool accumulate : {false, true}) {
          const Values a = Random(m * k, 1), b = Random(k * n, 2);
          Values want = accumulate ? Random(m * n, 3) : reference::Zeros(m * n);
          const Tensor ta_ = ta ? dev_.Put({k, m}, a) : dev_.Put({m, k}, a);
          const Tensor tb_ = tb ? dev_.Put({n, k}, b) : dev_.Put({k, n}, b);
          // Only gradients of parameters accumulate.
          const Tensor c = accumulate ? dev_.PutWide({m, n}, want) : dev_.New({m, n});
          ops_.Matmul(ta_, Transpose{ta}, tb_, Transpose{tb}, c, accumulate, stream_);
          reference::Matmul(m, n, k, a, ta, b, tb, want);
          Near(c, want, "c");
        }
      }
    }
  }
}

TEST_P(OpsSuite, LayerNorm) {
  for (const auto& [rows, width] :
       std::array<std::array<std::int64_t, 2>, 4>{{{1, 2}, {4, 7}, {9, 64}, {3, 769}}}) {
    const Values x = Random(rows * width, 1, 2, 5), gamma = Random(width, 2), beta = Random(width, 3);
    const Values dy = Random(rows * width, 4);
    const Tensor x_ = dev_.Put({rows, width}, x), gamma_ = dev_.Put({width}, gamma),
                 beta_ = dev_.Put({width}, beta);
    const Tensor y = dev_.New({rows, width}), mean = dev_.NewWide({rows}), rstd = dev_.NewWide({rows});
    ops_.LayerNormForward(x_, gamma_, beta_, 1e-5, y, mean, rstd, stream_);
    const reference::Norm norm = reference::LayerNorm(rows, width, x, gamma, beta, 1e-5);
    Near(y, norm.y, "y", 4);
    Near(mean, norm.mean, "mean");
    Near(rstd, norm.rstd, "rstd", 4);

    const reference::NormGradients want = reference::LayerNormBackward(rows, width, dy, x, gamma, norm);
    const Values old_dgamma = Random(width, 5), old_dbeta = Random(width, 6),
                 old_dx = Random(rows * width, 7);
    const Tensor dy_ = dev_.Put({rows, width}, dy), dx = dev_.New({rows, width});
    const Tensor dgamma = dev_.PutWide({width}, old_dgamma), dbeta = dev_.PutWide({width}, old_dbeta);
    ops_.LayerNormBackward(dy_, x_, gamma_, mean, rstd, dx, false, dgamma, dbeta, true, stream_);
    Near(dx, want.dx, "dx", 4);
    const auto sum = [](Values a, const Values& b) {
      for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
      return a;
    };
    Near(dgamma, sum(old_dgamma, want.dgamma), "dgamma", 4);
    Near(dbeta, sum(old_dbeta, want.dbeta), "dbeta");

    dev_.Set(dx, old_dx);
    ops_.LayerNormBackward(dy_, x_, gamma_, mean, rstd, dx, true, dgamma, dbeta, false, stream_);
    Near(dx, sum(old_dx, want.dx), "dx added to", 4);
    Near(dgamma, want.dgamma, "dgamma written", 4);
    Near(dbeta, want.dbeta, "dbeta written");

    ops_.LayerNormBackward(dy_, x_, gamma_, mean, rstd, dy_, false, dgamma, dbeta, true, stream_);
    Near(dy_, want.dx, "dx in the place of dy", 4);
  }
}

TEST_P(OpsSuite, LayerNormOfAConstantRowIsBeta) {
  const Tensor x = dev_.Put({1, 33}, Values(33, 1e4)), gamma = dev_.Put({33}, Values(33, 2)),
               beta = dev_.Put({33}, Values(33, 3));
  const Tensor y = dev_.New({1, 33}), mean = dev_.NewWide({1}), rstd = dev_.NewWide({1});
  ops_.LayerNormForward(x, gamma, beta, 1e-5, y, mean, rstd, stream_);
  Near(y, Values(33, 3), "y");
}

TEST_P(OpsSuite, BiasResidual) {
  for (const auto& [rows, width] :
       std::array<std::array<std::int64_t, 2>, 4>{{{1, 1}, {7, 5}, {8, 64}, {29, 131}}}) {
    const Values y = Random(rows * width, 1), bias = Random(width, 2), residual = Random(rows * width, 3);
    Values want = y;
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += bias[i % width] + residual[i];
    const Tensor y_ = dev_.Put({rows, width}, y);
    ops_.BiasResidual(y_, dev_.Put({width}, bias), dev_.Put({rows, width}, residual), stream_);
    Near(y_, want, "y");
  }
}

TEST_P(OpsSuite, RmsNorm) {
  for (const auto& [rows, width] :
       std::array<std::array<std::int64_t, 2>, 4>{{{1, 2}, {4, 7}, {9, 64}, {3, 769}}}) {
    const Values x = Random(rows * width, 1, -1, 5), gamma = Random(width, 2), dy = Random(rows * width, 3);
    const Tensor x_ = dev_.Put({rows, width}, x), gamma_ = dev_.Put({width}, gamma);
    const Tensor y = dev_.New({rows, width}), rstd = dev_.NewWide({rows});
    ops_.RmsNormForward(x_, gamma_, 1e-5, y, rstd, stream_);
    const reference::Norm norm = reference::RmsNorm(rows, width, x, gamma, 1e-5);
    Near(y, norm.y, "y", 4);
    Near(rstd, norm.rstd, "rstd", 4);

    const reference::NormGradients want = reference::RmsNormBackward(rows, width, dy, x, gamma, norm);
    const Values old_dgamma = Random(width, 5), old_dx = Random(rows * width, 7);
    const Tensor dy_ = dev_.Put({rows, width}, dy), dx = dev_.New({rows, width}),
                 dgamma = dev_.PutWide({width}, old_dgamma);
    const auto sum = [](Values a, const Values& b) {
      for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
      return a;
    };
    ops_.RmsNormBackward(dy_, x_, gamma_, rstd, dx, false, dgamma, true, stream_);
    Near(dx, want.dx, "dx", 4);
    Near(dgamma, sum(old_dgamma, want.dgamma), "dgamma", 4);
    dev_.Set(dx, old_dx);
    ops_.RmsNormBackward(dy_, x_, gamma_, rstd, dx, true, dgamma, false, stream_);
    Near(dx, sum(old_dx, want.dx), "dx added to", 4);
    Near(dgamma, want.dgamma, "dgamma written", 4);
    ops_.RmsNormBackward(dy_, x_, gamma_, rstd, dy_, false, dgamma, true, stream_);
    Near(dy_, want.dx, "dx in the place of dy", 4);
    EXPECT_EQ(dev_.Get(x_), x) << "the input was changed";
  }
}

// A slice's rank receives zeros from a neighbour that does not exist.
TEST_P(OpsSuite, RmsNormOfZerosIsFinite) {
  const Tensor x = dev_.Put({1, 5}, Values(5, 0)), gamma = dev_.Put({5}, Values(5, 1)), y = dev_.New({1, 5}),
               rstd = dev_.NewWide({1});
  ops_.RmsNormForward(x, gamma, 1e-5, y, rstd, stream_);
  EXPECT_EQ(dev_.Get(y), Values(5, 0.0));
}

TEST_P(OpsSuite, ResidualAdd) {
  for (const auto& [rows, width] : std::array<std::array<std::int64_t, 2>, 3>{{{1, 1}, {7, 5}, {29, 131}}}) {
    const Values y = Random(rows * width, 1), residual = Random(rows * width, 2);
    Values want = y;
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += residual[i];
    const Tensor y_ = dev_.Put({rows, width}, y);
    ops_.ResidualAdd(y_, dev_.Put({rows, width}, residual), stream_);
    Near(y_, want, "y");
  }
}

// Also of elements in whole packs, which GPUs read several at a time.
TEST_P(OpsSuite, Scale) {
  for (const auto& [rows, width] :
       std::array<std::array<std::int64_t, 2>, 4>{{{1, 1}, {7, 5}, {29, 131}, {17, 64}}}) {
    for (const double factor : {0.0, 0.25, -3.0, 45.254834}) {
      const Values x = Random(rows * width, 1);
      Values want = x;
      for (double& value : want) value *= factor;
      const Tensor x_ = dev_.Put({rows, width}, x), y_ = dev_.New({rows, width});
      ops_.Scale(x_, factor, y_, stream_);
      Near(y_, want, "y");
      Near(x_, x, "x");
      ops_.Scale(x_, factor, x_, stream_);
      Near(x_, want, "in place");
    }
  }
}

constexpr std::array<Activation, 2> kGatedActivations = {Activation::kSwiGlu, Activation::kGeGlu};

// Uses a gate of x and ups of 1 and of -0.5.
TEST_P(OpsSuite, GatedActivationsFromVerySmallToVeryLarge) {
  Values x = Random(1001, 1, -8, 8);
  for (double large : {20.0, 50.0, 1e3, 1e6, 1e12}) x.insert(x.end(), {large, -large});
  x.insert(x.end(), {0.0, 1e-12, -1e-12, 1e-30, -1e-30});
  for (double& v : x) v = Rounded(v);
  const auto n = static_cast<std::int64_t>(x.size());
  for (const Activation activation : kGatedActivations) {
    for (double up : {1.0, -0.5}) {
      Values wide = x;
      wide.insert(wide.end(), x.size(), up);
      const Tensor x_ = dev_.Put({1, 2 * n}, wide), y = dev_.New({1, n}),
                   dy = dev_.Put({1, n}, Values(x.size(), 2));
      const Tensor dx = dev_.New({1, 2 * n});
      ops_.ActivationForward(activation, x_, {}, y, stream_);
      ops_.ActivationBackward(activation, x_, dy, dx, stream_);
      EXPECT_EQ(dev_.Get(x_), wide);
      const Values got_y = dev_.Get(y), got_dx = dev_.Get(dx);
      for (std::size_t i = 0; i < x.size(); ++i) {  // each relative to its own x
        const double allowed = GetParam().tolerance * std::max(std::abs(x[i]), 1e-30);
        const double value = reference::ActivationValue(activation, x[i]),
                     slope = reference::ActivationSlope(activation, x[i]);
        const double rounding = NarrowRounding(dev_.type);
        ASSERT_NEAR(got_y[i], value * up, allowed + rounding * std::abs(value))
            << Name(activation) << " of " << x[i];
        ASSERT_NEAR(got_dx[i], 2 * slope * up, 4 * GetParam().tolerance + rounding * std::abs(2 * slope))
            << "slope of " << Name(activation) << " at " << x[i];
        ASSERT_NEAR(got_dx[x.size() + i], 2 * value, 2 * (allowed + rounding * std::abs(value)))
            << "by the up of " << Name(activation) << " at " << x[i];
      }
    }
  }
}

TEST_P(OpsSuite, GatedActivationsStoreTheBiasedInput) {
  const std::int64_t rows = 3, width = 21, wide = 2 * width;
  for (const Activation activation : kGatedActivations) {
    const Values x = Random(rows * wide, 1), bias = Random(wide, 2), dy = Random(rows * width, 3);
    Values sum = x, want(static_cast<std::size_t>(rows * width)), dx = x;
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += bias[i % wide];
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t i = 0; i < width; ++i) {
        const double gate = sum[t * wide + i], up = sum[t * wide + width + i], d = dy[t * width + i];
        want[t * width + i] = reference::ActivationValue(activation, gate) * up;
        dx[t * wide + i] = d * up * reference::ActivationSlope(activation, gate);
        dx[t * wide + width + i] = d * reference::ActivationValue(activation, gate);
      }
    }
    const Tensor x_ = dev_.Put({rows, wide}, x), y = dev_.New({rows, width}), dx_ = dev_.New({rows, wide});
    ops_.ActivationForward(activation, x_, dev_.Put({wide}, bias), y, stream_);
    const std::string name(Name(activation));
    Near(x_, sum, "x of " + name);
    Near(y, want, "y of " + name, 1, 2);  // the sums are rounded, both of a gate and of an up
    ops_.ActivationBackward(activation, x_, dev_.Put({rows, width}, dy), dx_, stream_);
    Near(dx_, dx, "dx of " + name, 2, 2);
  }
}

TEST_P(OpsSuite, GatedActivationsPropagateNaN) {
  for (const Activation activation : kGatedActivations) {
    const Tensor y = dev_.New({1, 1});
    dev_.Set(y, {0});
    ops_.ActivationForward(activation, dev_.Put({1, 2}, Values(2, std::nan(""))), {}, y, stream_);
    EXPECT_TRUE(std::isnan(dev_.Get(y)[0])) << Name(activation);
  }
}

TEST_P(OpsSuite, NormsOfHeads) {
  for (const reference::HeadNormSizes& z : {reference::HeadNormSizes{1, 1, 1, 2},
                                            {5, 3, 1, 4},
                                            {3, 2, 2, 5},
                                            {7, 4, 2, 64},
                                            {67, 6, 2, 128},
                                            {300, 2, 1, 32},
                                            {9, 2, 1, 256},
                                            {11, 2, 1, 96},
                                            {4, 3, 3, 7}}) {
    const std::string at = " T=" + std::to_string(z.tokens) + " N/G=" + std::to_string(z.heads) + "/" +
                           std::to_string(z.kv_heads) + " D=" + std::to_string(z.dim);
    const Values qkv = Random(z.tokens * z.Row(), 1), dqkv = Random(z.tokens * z.Row(), 2),
                 gamma_q = Random(z.dim, 3), gamma_k = Random(z.dim, 4), old = Random(z.dim, 5);
    const reference::HeadNorm want = reference::NormOfHeads(z, qkv, gamma_q, gamma_k, 1e-3, dqkv);
    const Tensor qkv_ = dev_.Put({z.tokens, z.Row()}, qkv), dqkv_ = dev_.Put({z.tokens, z.Row()}, dqkv),
                 raw = dev_.New({z.tokens, z.Normed() * z.dim}), rstd = dev_.NewWide({z.tokens, z.Normed()}),
                 q = dev_.Put({z.dim}, gamma_q), k = dev_.Put({z.dim}, gamma_k);
    ops_.HeadNormForward(qkv_, z.heads, z.kv_heads, q, k, 1e-3, raw, rstd, stream_);
    Near(qkv_, want.qkv, "qkv" + at, 2, 1);  // v stays as it is
    EXPECT_EQ(dev_.Get(raw), want.raw) << at;
    Near(rstd, want.rstd, "rstd" + at, 2);
    // Gradients of parameters: written, then added to.
    const double factor = 4 + std::sqrt(static_cast<double>(z.tokens * z.heads));
    for (const bool accumulate : {false, true}) {
      const Tensor dgamma_q = dev_.PutWide({z.dim}, old), dgamma_k = dev_.PutWide({z.dim}, old);
      dev_.Set(dqkv_, dqkv);
      ops_.HeadNormBackward(dqkv_, z.heads, z.kv_heads, raw, q, k, rstd, dgamma_q, dgamma_k, accumulate,
                            stream_);
      Values sum_q = want.dgamma_q, sum_k = want.dgamma_k;
      for (std::size_t i = 0; accumulate && i < old.size(); ++i) {
        sum_q[i] += old[i];
        sum_k[i] += old[i];
      }
      Near(dqkv_, want.dqkv, "dqkv" + at, 4, 1);
      Near(dgamma_q, sum_q, "dgamma_q" + at, factor);
      Near(dgamma_k, sum_k, "dgamma_k" + at, factor);
    }
  }
}

// Over all queries and all keys: of two ranks that have half of the heads each, with the sums between the
// steps.
TEST_P(OpsSuite, NormsOfAllQueriesAndKeys) {
  for (const reference::HeadNormSizes& z : {reference::HeadNormSizes{1, 1, 1, 2},
                                            {5, 3, 1, 4},
                                            {3, 2, 2, 5},
                                            {70, 4, 2, 64},
                                            {33, 24, 8, 128},
                                            {9, 3, 3, 7}}) {
    const std::string at = " T=" + std::to_string(z.tokens) + " N/G=" + std::to_string(z.heads) + "/" +
                           std::to_string(z.kv_heads) + " D=" + std::to_string(z.dim);
    const std::int64_t queries = z.heads * z.dim, keys = z.kv_heads * z.dim, ranks = 2;
    struct Rank {
      Values qkv, dqkv, gamma_q, gamma_k;
    };
    std::vector<Rank> of;
    for (unsigned r = 0; r < 2; ++r) {
      of.push_back({Random(z.tokens * z.Row(), 10 * r + 1), Random(z.tokens * z.Row(), 10 * r + 2),
                    Random(queries, 10 * r + 3), Random(keys, 10 * r + 4)});
    }
    // The norm of a row of both ranks' columns, from q (part 0) or k (part 1).
    const auto norm = [&](std::int64_t t, int part) {
      const std::int64_t first = part == 0 ? 0 : queries, width = part == 0 ? queries : keys;
      double squares = 0, products = 0;
      for (const Rank& rank : of) {
        for (std::int64_t i = 0; i < width; ++i) {
          const double x = rank.qkv[t * z.Row() + first + i];
          squares += x * x;
          products += x * rank.dqkv[t * z.Row() + first + i] * (part == 0 ? rank.gamma_q : rank.gamma_k)[i];
        }
      }
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(ranks * width) + 1e-3);
      return std::array{squares, rstd, products * rstd};
    };
    Values sums, rstds, products;
    for (std::int64_t t = 0; t < z.tokens; ++t) {
      for (int part : {0, 1}) {
        const auto [a, b, c] = norm(t, part);
        sums.push_back(a);
        rstds.push_back(b);
        products.push_back(c);
      }
    }
    const Tensor group_sums = dev_.NewWide({z.tokens, 2});
    Values got_sums = reference::Zeros(2 * z.tokens), got_products = got_sums;
    const auto add = [&](Values& to, const Tensor& from) {
      const Values values = dev_.Get(from);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += values[i];
    };
    for (const Rank& rank : of) {
      const Tensor qkv = dev_.Put({z.tokens, z.Row()}, rank.qkv);
      ops_.QkSquares(qkv, z.heads, z.kv_heads, group_sums, stream_);
      EXPECT_EQ(dev_.Get(qkv), rank.qkv);
      add(got_sums, group_sums);
    }
    Near(dev_.PutWide({z.tokens, 2}, got_sums), sums, "sums" + at, 4);
    for (const Rank& rank : of) {
      const Tensor dqkv = dev_.Put({z.tokens, z.Row()}, rank.dqkv), rstd = dev_.PutWide({z.tokens, 2}, rstds);
      Values raw;
      for (std::int64_t t = 0; t < z.tokens; ++t) {
        const auto begin = rank.qkv.begin() + t * z.Row();
        raw.insert(raw.end(), begin, begin + queries + keys);
      }
      ops_.QkProducts(dqkv, z.heads, z.kv_heads, dev_.Put({z.tokens, z.Normed() * z.dim}, raw),
                      dev_.Put({queries}, rank.gamma_q), dev_.Put({keys}, rank.gamma_k), rstd, group_sums,
                      stream_);
      add(got_products, group_sums);
    }
    Near(dev_.PutWide({z.tokens, 2}, got_products), products, "products" + at, 8);
    for (const Rank& rank : of) {
      const Tensor qkv = dev_.Put({z.tokens, z.Row()}, rank.qkv),
                   dqkv = dev_.Put({z.tokens, z.Row()}, rank.dqkv),
                   raw = dev_.New({z.tokens, z.Normed() * z.dim}), rstd = dev_.PutWide({z.tokens, 2}, sums),
                   q = dev_.Put({queries}, rank.gamma_q), k = dev_.Put({keys}, rank.gamma_k);
      Values want = rank.qkv, want_d = rank.dqkv, dgamma_q = reference::Zeros(queries),
             dgamma_k = reference::Zeros(keys);
      for (std::int64_t t = 0; t < z.tokens; ++t) {
        for (std::int64_t i = 0; i < queries + keys; ++i) {
          const int part = i < queries ? 0 : 1;
          const std::int64_t column = part == 0 ? i : i - queries, width = part == 0 ? queries : keys;
          const auto e = static_cast<std::size_t>(t * z.Row() + i);
          const double s = rstds[2 * t + part], n = rank.qkv[e] * s,
                       gamma = (part == 0 ? rank.gamma_q : rank.gamma_k)[column];
          want[e] = n * gamma;
          (part == 0 ? dgamma_q : dgamma_k)[column] += rank.dqkv[e] * n;
          want_d[e] =
              s * (rank.dqkv[e] * gamma - n * products[2 * t + part] / static_cast<double>(ranks * width));
        }
      }
      ops_.QkNormForward(qkv, z.heads, z.kv_heads, ranks, q, k, 1e-3, raw, rstd, stream_);
      Near(qkv, want, "qkv" + at, 2, 1);
      Near(rstd, rstds, "rstd" + at, 2);
      const Tensor dq = dev_.NewWide({queries}), dk = dev_.NewWide({keys}),
                   of_group = dev_.PutWide({z.tokens, 2}, products);
      ops_.QkNormBackward(dqkv, z.heads, z.kv_heads, ranks, raw, q, k, rstd, of_group, dq, dk, false,
                          stream_);
      Near(dqkv, want_d, "dqkv" + at, 4, 1);
      const double factor = 4 + std::sqrt(static_cast<double>(z.tokens));
      Near(dq, dgamma_q, "dgamma_q" + at, factor);
      Near(dk, dgamma_k, "dgamma_k" + at, factor);
      // Added to.
      dev_.Set(dqkv, rank.dqkv);
      ops_.QkNormBackward(dqkv, z.heads, z.kv_heads, ranks, raw, q, k, rstd, of_group, dq, dk, true, stream_);
      for (double& v : dgamma_q) v *= 2;
      for (double& v : dgamma_k) v *= 2;
      Near(dq, dgamma_q, "sum of dgamma_q" + at, factor);
      Near(dk, dgamma_k, "sum of dgamma_k" + at, factor);
    }
  }
}

TEST_P(OpsSuite, RopeRotatesAndRotatesBack) {
  struct Sizes {
    std::int64_t batch, seq, heads, dim, rotary, rest;  // rest: columns after the heads, which stay unchanged
    double theta;
  };
  for (const Sizes& z :
       {Sizes{1, 1, 1, 2, 2, 0, 1e4}, Sizes{2, 5, 3, 4, 4, 3, 1e4}, Sizes{1, 300, 2, 64, 64, 32, 5e5},
        Sizes{2, 40, 1, 260, 260, 7, 1e4}, Sizes{1, 33, 5, 6, 6, 0, 0.5}, Sizes{1, 2048, 1, 128, 128, 1, 1e6},
        // Partial: in packs, with heads or halves that are none, and of a head dimension that is odd.
        Sizes{2, 17, 3, 64, 32, 64, 1e4}, Sizes{1, 40, 2, 80, 20, 8, 1e4}, Sizes{1, 9, 3, 36, 16, 4, 1e4},
        Sizes{1, 300, 2, 256, 64, 256, 1e4}, Sizes{2, 5, 3, 5, 2, 1, 1e4},
        Sizes{1, 20, 2, 300, 260, 3, 1e4}}) {
    const std::int64_t width = z.heads * z.dim + z.rest;
    const Values qkv = Random(z.batch * z.seq * width, 1);
    Values want = qkv, back = qkv;
    reference::Rope(z.batch, z.seq, width, z.heads, z.dim, z.rotary, z.theta, 1, want);
    reference::Rope(z.batch, z.seq, width, z.heads, z.dim, z.rotary, z.theta, -1, back);
    const std::string at =
        " S=" + std::to_string(z.seq) + " D=" + std::to_string(z.dim) + " r=" + std::to_string(z.rotary);
    const Tensor turned = dev_.Put({z.batch, z.seq, width}, qkv),
                 inverse = dev_.Put({z.batch, z.seq, width}, qkv);
    ops_.Rope(turned, z.heads, z.dim, z.rotary, z.theta, false, stream_);
    // Angles of up to S are rounded before their sine is taken.
    Near(turned, want, "turned" + at, 1 + static_cast<double>(z.seq) / 500);
    ops_.Rope(inverse, z.heads, z.dim, z.rotary, z.theta, true, stream_);
    Near(inverse, back, "turned back" + at, 1 + static_cast<double>(z.seq) / 500);
    ops_.Rope(turned, z.heads, z.dim, z.rotary, z.theta, true, stream_);
    Near(turned, qkv, "there and back" + at, 1, 1);
  }
}

// The purpose of RoPE: the product of a rotated q and a rotated k depends only on their distance.
TEST_P(OpsSuite, RopeMakesScoresRelative) {
  const std::int64_t seq = 20, dim = 8;
  const Values head = Random(dim, 1);
  Values rows;
  for (std::int64_t s = 0; s < seq; ++s) rows.insert(rows.end(), head.begin(), head.end());
  const Tensor qkv = dev_.Put({1, seq, dim}, rows);
  ops_.Rope(qkv, 1, dim, dim, 100, false, stream_);
  const Values turned = dev_.Get(qkv);
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t i = 0; i < dim; ++i) sum += turned[a * dim + i] * turned[b * dim + i];
    return sum;
  };
  for (std::int64_t s = 3; s < seq; ++s)
    EXPECT_NEAR(dot(s, s - 3), dot(3, 0), (GetParam().tolerance + NarrowRounding(dev_.type)) * 10) << s;
  EXPECT_GT(std::abs(dot(3, 0) - dot(0, 0)), 0.01);
}

constexpr std::array<reference::AttentionSizes, 17> kAttentionSizes{{{1, 1, 1, 1, 1},
                                                                     {2, 5, 2, 3, 2},
                                                                     {1, 127, 1, 8, 1},
                                                                     {1, 128, 2, 4, 2},
                                                                     {1, 129, 1, 5, 1},
                                                                     {1, 300, 1, 7, 1},
                                                                     {1, 256, 1, 64, 1},
                                                                     {1, 1, 2, 1, 1},
                                                                     {2, 5, 4, 3, 2},
                                                                     {1, 130, 6, 4, 2},
                                                                     {2, 129, 3, 5, 1},
                                                                     {1, 260, 2, 8, 2},
                                                                     // scales, and slopes of ALiBi
                                                                     {1, 130, 2, 8, 2, 0.75},
                                                                     {2, 19, 4, 16, 2, 0, 4},
                                                                     {1, 140, 6, 8, 3, 0, 6},
                                                                     {1, 70, 5, 24, 1, 0.3, 12, 7},
                                                                     {1, 33, 3, 5, 1, 0, 20, 16}}};

inline std::string Describe(const reference::AttentionSizes& z) {
  return " S=" + std::to_string(z.seq) + " D=" + std::to_string(z.dim) + " N/G=" + std::to_string(z.heads) +
         "/" + std::to_string(z.kv_heads) + " scale=" + std::to_string(z.scale) + " slopes from " +
         std::to_string(z.first_head) + " of " + std::to_string(z.alibi_heads);
}

inline AttentionForm FormOf(const reference::AttentionSizes& z) {
  return {z.heads, z.kv_heads, z.scale, z.alibi_heads, z.first_head};
}

TEST_P(OpsSuite, Attention) {
  for (const reference::AttentionSizes& z : kAttentionSizes) {
    for (double magnitude : {1.0, 20.0}) {
      const Values qkv = Random(z.Tokens() * z.Row(), 1, -magnitude, magnitude);
      const Values dout = Random(z.Tokens() * z.Width(), 2);
      const Tensor qkv_ = dev_.Put({z.batch, z.seq, z.Row()}, qkv),
                   lse = dev_.NewWide({z.batch, z.heads, z.seq});
      const Tensor out = dev_.New({z.batch, z.seq, z.Width()}),
                   dout_ = dev_.Put({z.batch, z.seq, z.Width()}, dout);
      const Tensor dqkv = dev_.New({z.batch, z.seq, z.Row()});
      const Tensor workspace = dev_.NewWide({AttentionWorkspaceElements(z.seq, z.dim)});
      const reference::Attention want = reference::CausalAttention(z, qkv, dout);
      const std::string at = Describe(z);
      // Scores of magnitude^2 sqrt(D) are rounded; the exponential magnifies that rounding.
      const double factor = 4 * std::max(1.0, magnitude * magnitude);
      ops_.AttentionForward(qkv_, FormOf(z), out, lse, workspace, stream_);
      Near(out, want.out, "out" + at, factor, 1);  // probabilities are rounded
      Near(lse, want.lse, "lse" + at, 4);
      dev_.Set(workspace, Values(static_cast<std::size_t>(workspace.Elements()), std::nan("")));
      ops_.AttentionBackward(qkv_, FormOf(z), out, lse, dout_, dqkv, workspace, stream_);
      // The backward subtracts dout * out, whose rounding is of the size of v, even if the exact difference
      // is small; q and k magnify it.
      Near(dqkv, want.dqkv, "dqkv" + at, factor, std::max(4.0, magnitude));
      EXPECT_EQ(dev_.Get(qkv_), qkv) << "the input was changed";
    }
  }
}

TEST_P(OpsSuite, UnfusedAttention) {
  for (const reference::AttentionSizes& z : kAttentionSizes) {
    for (double magnitude : {1.0, 20.0}) {
      const Values qkv = Random(z.Tokens() * z.Row(), 1, -magnitude, magnitude);
      const Values dout = Random(z.Tokens() * z.Width(), 2);
      const Tensor qkv_ = dev_.Put({z.batch, z.seq, z.Row()}, qkv),
                   dout_ = dev_.Put({z.batch, z.seq, z.Width()}, dout);
      const Tensor out = dev_.New({z.batch, z.seq, z.Width()}), dqkv = dev_.New({z.batch, z.seq, z.Row()});
      const Tensor probabilities = dev_.New({z.batch, z.heads, z.seq, z.seq}),
                   dscores = dev_.New({z.batch, z.heads, z.seq, z.seq});
      const reference::Attention want = reference::CausalAttention(z, qkv, dout);
      const std::string at = Describe(z);
      const double factor = 4 * std::max(1.0, magnitude * magnitude);  // as in fused attention
      ops_.UnfusedAttentionForward(qkv_, FormOf(z), probabilities, out, stream_);
      Near(probabilities, want.probabilities, "probabilities" + at, factor);
      Near(out, want.out, "out" + at, factor, 1);
      const Values stored = dev_.Get(probabilities);
      for (std::int64_t row = 0; row < z.batch * z.heads * z.seq; ++row) {
        for (std::int64_t key = row % z.seq + 1; key < z.seq; ++key)
          ASSERT_EQ(stored[row * z.seq + key], 0) << "of a later key" << at;
      }
      ops_.UnfusedAttentionBackward(qkv_, FormOf(z), probabilities, out, dout_, dqkv, dscores, stream_);
      Near(dqkv, want.dqkv, "dqkv" + at, factor, std::max(4.0, magnitude));
      EXPECT_EQ(dev_.Get(qkv_), qkv) << "the input was changed";
      EXPECT_EQ(dev_.Get(probabilities), stored) << "the probabilities were changed";
    }
  }
}

TEST_P(OpsSuite, UnfusedAttentionEqualsFused) {
  const double tolerance = dev_.type == DType::kF64 ? 1e-12 : 4 * GetParam().tolerance;
  const double rounding = NarrowRounding(dev_.type);
  for (const reference::AttentionSizes& z : kAttentionSizes) {
    const Tensor qkv = dev_.Put({z.batch, z.seq, z.Row()}, Random(z.Tokens() * z.Row(), 1, -2, 2)),
                 dout = dev_.Put({z.batch, z.seq, z.Width()}, Random(z.Tokens() * z.Width(), 2));
    const Tensor lse = dev_.NewWide({z.batch, z.heads, z.seq}),
                 workspace = dev_.NewWide({AttentionWorkspaceElements(z.seq, z.dim)});
    const Tensor fused_out = dev_.New({z.batch, z.seq, z.Width()}),
                 fused_dqkv = dev_.New({z.batch, z.seq, z.Row()});
    ops_.AttentionForward(qkv, FormOf(z), fused_out, lse, workspace, stream_);
    ops_.AttentionBackward(qkv, FormOf(z), fused_out, lse, dout, fused_dqkv, workspace, stream_);
    const Tensor probabilities = dev_.New({z.batch, z.heads, z.seq, z.seq}),
                 dscores = dev_.New({z.batch, z.heads, z.seq, z.seq});
    const Tensor out = dev_.New({z.batch, z.seq, z.Width()}), dqkv = dev_.New({z.batch, z.seq, z.Row()});
    ops_.UnfusedAttentionForward(qkv, FormOf(z), probabilities, out, stream_);
    ops_.UnfusedAttentionBackward(qkv, FormOf(z), probabilities, out, dout, dqkv, dscores, stream_);
    ExpectNear(dev_.Get(out), dev_.Get(fused_out), tolerance + rounding, "out" + Describe(z), rounding);
    ExpectNear(dev_.Get(dqkv), dev_.Get(fused_dqkv), tolerance + 4 * rounding, "dqkv" + Describe(z),
               rounding);
  }
}

TEST_P(OpsSuite, AttentionIgnoresLaterTokens) {
  const reference::AttentionSizes z{1, 140, 2, 6, 1};
  const Values qkv = Random(z.Tokens() * z.Row(), 1);
  Values changed = qkv;
  std::fill(changed.end() - z.Row(), changed.end(), 1000.0);  // the last token
  const Tensor qkv_ = dev_.New({1, z.seq, z.Row()}), out = dev_.New({1, z.seq, z.Width()});
  const Tensor lse = dev_.NewWide({1, z.heads, z.seq}),
               workspace = dev_.NewWide({AttentionWorkspaceElements(z.seq, z.dim)}),
               probabilities = dev_.New({1, z.heads, z.seq, z.seq});
  for (const bool unfused : {false, true}) {
    const auto earlier_rows = [&](const Values& values) {
      dev_.Set(qkv_, values);
      if (unfused) {
        ops_.UnfusedAttentionForward(qkv_, FormOf(z), probabilities, out, stream_);
      } else {
        ops_.AttentionForward(qkv_, FormOf(z), out, lse, workspace, stream_);
      }
      Values rows = dev_.Get(out);
      rows.resize(rows.size() - static_cast<std::size_t>(z.Width()));
      return rows;
    };
    const Values before = earlier_rows(qkv);
    ExpectNear(earlier_rows(changed), before, GetParam().tolerance, unfused ? "unfused" : "fused",
               NarrowRounding(dev_.type));
  }
}

TEST_P(OpsSuite, Embedding) {
  const std::int64_t width = 5, vocab = 4, start = 10;
  const std::vector<std::int32_t> tokens{10, 13, 9, 14, 11, 13, 0};
  const Values table = Random(vocab * width, 1), dout = Random(7 * width, 2), old = Random(vocab * width, 3);
  Values want(tokens.size() * width, 0.0), dwant = old;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::int64_t row = tokens[t] - start;
    if (row < 0 || row >= vocab) continue;
    for (std::int64_t i = 0; i < width; ++i) {
      want[t * width + i] = table[row * width + i];
      dwant[row * width + i] += dout[t * width + i];
    }
  }
  const Tensor tokens_ = dev_.PutTokens(tokens), out = dev_.New({7, width}),
               dtable = dev_.PutWide({vocab, width}, old);
  ops_.EmbeddingForward(tokens_, dev_.Put({vocab, width}, table), start, out, stream_);
  EXPECT_EQ(dev_.Get(out), want);
  const Tensor dout_ = dev_.Put({7, width}, dout);
  ops_.EmbeddingBackward(tokens_, dout_, start, dtable, true, stream_);
  Near(dtable, dwant, "dtable");
  ops_.EmbeddingBackward(tokens_, dout_, start, dtable, false, stream_);
  for (std::size_t i = 0; i < dwant.size(); ++i) dwant[i] -= old[i];
  Near(dtable, dwant, "dtable written");
}

TEST_P(OpsSuite, Position) {
  const std::int64_t batch = 3, seq = 4, width = 5, positions = 6;
  const Values y = Random(batch * seq * width, 1), table = Random(positions * width, 2);
  Values want = y, dwant = table;
  for (std::int64_t i = 0; i < batch * seq * width; ++i) {
    want[i] += table[i % (seq * width)];
    dwant[i % (seq * width)] += y[i];
  }
  const Tensor y_ = dev_.Put({batch * seq, width}, y), dy = dev_.Put({batch, seq, width}, y);
  const Tensor table_ = dev_.Put({positions, width}, table);
  ops_.PositionForward(y_, seq, 0, table_, stream_);
  Near(y_, want, "y");
  const Tensor dtable = dev_.PutWide({positions, width}, table);
  ops_.PositionBackward(dy, dtable, true, stream_);
  Near(dtable, dwant, "dtable");
  ops_.PositionBackward(dy, dtable, false, stream_);
  for (std::size_t i = 0; i < dwant.size(); ++i) dwant[i] -= table[i];
  Near(dtable, dwant, "dtable written");
}

// A part of the tokens: it begins and ends anywhere in a sequence, or lies in one.
TEST_P(OpsSuite, PositionsOfAPartOfTheTokens) {
  const std::int64_t seq = 4, width = 8;
  const Values table = Random(seq * width, 2);
  const Tensor table_ = dev_.Put({seq, width}, table);
  for (const std::int64_t first : {0, 1, 3, 4, 6}) {
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 9, 14}) {
      Values want = Random(rows * width, 1);
      const Tensor y = dev_.Put({rows, width}, want);
      for (std::int64_t i = 0; i < rows * width; ++i)
        want[i] += table[((first + i / width) % seq) * width + i % width];
      ops_.PositionForward(y, seq, first, table_, stream_);
      Near(y, want, "y");
    }
  }
}

TEST_P(OpsSuite, Fill) {
  for (const DType type : {dev_.type, dev_.wide_type, DType::kF64}) {
    for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{2, 3, 4, 5}}) {
      for (double value : {-1.5, 0.0}) {
        const Tensor y = dev_.New(shape, type);
        ops_.Fill(y, value, stream_);
        EXPECT_EQ(dev_.Get(y), Values(static_cast<std::size_t>(y.Elements()), value));
      }
    }
  }
}

TEST_P(OpsSuite, SumOfSquaresAddsInDoublePrecision) {
  const Values x = Random(20011, 1), y = Random(21, 2), z = Random(4096, 3);
  double want = 5;
  for (const Values* values : {&x, &y, &z}) {
    for (double v : *values) want += v * v;
  }
  const Tensor result = dev_.Put({1}, {5}, DType::kF64);
  ops_.SumOfSquares(std::array{dev_.PutWide({20011}, x), dev_.PutWide({3, 7}, y), dev_.PutWide({64, 64}, z)},
                    result, stream_);
  EXPECT_NEAR(dev_.Get(result)[0], want, 1e-12 * want);
  ops_.SumOfSquares({}, result, stream_);
  EXPECT_NEAR(dev_.Get(result)[0], want, 1e-12 * want) << "nothing was added";
}

TEST_P(OpsSuite, AdamWWithoutEpsKeepsParametersWithoutGradient) {
  const Tensor param = dev_.Put({2}, {3, 3}), m = dev_.PutWide({2}, {0, 0}), v = dev_.PutWide({2}, {0, 0});
  const Tensor master = IsNarrow(dev_.type) ? dev_.PutWide({2}, {3, 3}) : Tensor{};
  AdamWParams h;
  h.lr = 0.5;
  h.eps = 0;
  h.bias_correction1 = 1 - h.beta1;
  h.bias_correction2 = 1 - h.beta2;
  ops_.AdamW(std::array{AdamWTensor{param, dev_.PutWide({2}, {0, 2}), master, m, v}}, h, stream_);
  Near(param, {3, 2.5}, "param");  // the first step moves by lr against the gradient's sign
}

// Updates tensors of several sizes, some with weight decay, in one op; with master copies if parameters are
// narrow.
TEST_P(OpsSuite, AdamWOverSeveralSteps) {
  struct Parameter {
    Values p, m, v;
    AdamWTensor tensors;
  };
  std::vector<Parameter> parameters;
  for (const std::int64_t n : {1003, 1, 64, 5000}) {
    Parameter one{Random(n, static_cast<unsigned>(n)), reference::Zeros(n), reference::Zeros(n), {}};
    const double weight_decay = n % 2 == 0 ? 0.0 : 0.1;
    const Tensor master = IsNarrow(dev_.type) ? dev_.PutWide({n}, one.p) : Tensor{};
    one.tensors = {dev_.Put({n}, one.p),     {},          master, dev_.PutWide({n}, one.m),
                   dev_.PutWide({n}, one.v), weight_decay};
    parameters.push_back(std::move(one));
  }
  // Norms above, at and below the clip norm. Without clipping, the norm has no effect.
  struct Clipping {
    double clip_norm, norm, scale;
  };
  const Clipping clippings[] = {{0, 8, 1},   {1, 2, 1 / (2 + 1e-6)},     {1, 1, 1 / (1 + 1e-6)},
                                {1, 0.5, 1}, {3, 1e4, 3 / (1e4 + 1e-6)}, {1, 0, 1}};
  int step = 0;
  for (const auto& [clip_norm, norm, scale] : clippings) {
    ++step;
    AdamWParams h;
    h.lr = 0.01;
    h.bias_correction1 = 1 - std::pow(h.beta1, step);
    h.bias_correction2 = 1 - std::pow(h.beta2, step);
    h.clip_norm = clip_norm;
    if (clip_norm != 0) h.squared_norm = dev_.Put({1}, {norm * norm}, DType::kF64);
    std::vector<AdamWTensor> list;
    for (Parameter& one : parameters) {
      const auto n = static_cast<std::int64_t>(one.p.size());
      Values grad = Random(n, static_cast<unsigned>(10 * n + step));
      grad[0] = 0;  // a parameter without gradient, such as padding, only decays
      one.tensors.grad = dev_.PutWide({n}, grad);
      reference::AdamW(one.p, grad, one.m, one.v, one.tensors.weight_decay, scale, h);
      list.push_back(one.tensors);
    }
    ops_.AdamW(list, h, stream_);
    for (const Parameter& one : parameters) {
      Near(one.tensors.param, one.p, "param");
      if (one.tensors.master.IsPresent()) Near(one.tensors.master, one.p, "master");
      Near(one.tensors.m, one.m, "m");
      Near(one.tensors.v, one.v, "v");
    }
  }
}

}  // namespace autocfg
