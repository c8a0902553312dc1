// OpsSuite: norms of rows, of heads, and of all queries and keys of several ranks, with their gradients.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/conformance/ops/ops_fixture.h"
#include "tests/conformance/ops/ops_reference.h"

namespace autocfg {

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
    const Tensor dgamma = dev_.PutGradient({width}, old_dgamma), dbeta = dev_.PutGradient({width}, old_dbeta);
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
                 dgamma = dev_.PutGradient({width}, old_dgamma);
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
      const Tensor dgamma_q = dev_.PutGradient({z.dim}, old), dgamma_k = dev_.PutGradient({z.dim}, old);
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
      const Tensor dq = dev_.NewGradient({queries}), dk = dev_.NewGradient({keys}),
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

}  // namespace autocfg
