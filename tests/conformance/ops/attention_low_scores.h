// Attention whose scores are all far below zero, for any implementation. exp(score) and the sum of a row
// underflow float. The log-sum-exp is below the logarithm of the smallest normal float (-87.3; -88.7 for the
// inverse of the largest). Only an implementation that subtracts before it exponentiates gives correct
// results. Pure functions.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "tests/conformance/ops/ops_fixture.h"
#include "tests/conformance/ops/ops_reference.h"

namespace autocfg {

constexpr double kLowScoresKey = -4;  // as a multiple of the largest ordinary key

// Returns qkv of ordinary bf16 numbers, except in the first column of each head: there all queries are large
// and all keys are negative, so that every score is about -110.
inline Values LowScoresQkv(const reference::AttentionSizes& z, unsigned seed) {
  constexpr double kScore = -110;
  const double query = RoundTo(DType::kBF16, kScore * std::sqrt(static_cast<double>(z.dim)) / kLowScoresKey);
  Values qkv = Random(z.Tokens() * z.Row(), seed);
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    const std::int64_t column = static_cast<std::int64_t>(i) % z.Row(), head = column / z.dim;
    if (column % z.dim != 0 || head >= z.heads + z.kv_heads) {
      qkv[i] = RoundTo(DType::kBF16, qkv[i]);
    } else {
      qkv[i] = head < z.heads ? query : kLowScoresKey;
    }
  }
  return qkv;
}

// bf16 rounding of intermediate results (probabilities, outputs, the scores' gradients) is magnified by the
// large column. So that column is compared separately, and the others relative to their largest element. In
// the gradient of q, the terms of that column cancel because all its keys are equal; it is compared relative
// to the terms.
inline void ExpectLowScores(const reference::AttentionSizes& z, const reference::Attention& got,
                            const reference::Attention& want) {
  constexpr double kTolerance = 2e-2, kLowest = -88.7;
  const std::int64_t q = z.Width(), kv = z.kv_heads * z.dim;
  const auto near = [&](const Values& g, const Values& w, std::int64_t row, std::int64_t first,
                        std::int64_t width, bool large_column, double least_scale, const std::string& what) {
    ASSERT_EQ(g.size(), w.size()) << what;
    const auto inside = [&](std::size_t i) {
      const std::int64_t column = static_cast<std::int64_t>(i) % row;
      return column >= first && column < first + width && (column % z.dim == 0) == large_column;
    };
    double scale = least_scale;
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (inside(i)) scale = std::max(scale, std::abs(w[i]));
    }
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (!inside(i)) continue;
      ASSERT_TRUE(std::isfinite(g[i])) << what << '[' << i << ']';
      ASSERT_NEAR(g[i], w[i], kTolerance * scale) << what << '[' << i << ']';
    }
  };
  ASSERT_EQ(got.lse.size(), want.lse.size());
  for (std::size_t i = 0; i < got.lse.size(); ++i) {
    ASSERT_LT(want.lse[i], kLowest) << "the test's scores are too high";
    ASSERT_NEAR(got.lse[i], want.lse[i], 1e-2) << "lse[" << i << ']';
  }
  double dq_scale = 0.1;
  for (std::size_t i = 0; i < want.dqkv.size(); ++i) {
    if (static_cast<std::int64_t>(i) % z.Row() < q) dq_scale = std::max(dq_scale, std::abs(want.dqkv[i]));
  }
  for (const bool large_column : {false, true}) {
    const std::string where = large_column ? ", first columns" : "";
    near(got.out, want.out, q, 0, q, large_column, 0.1, "out" + where);
    near(got.dqkv, want.dqkv, z.Row(), 0, q, large_column,
         dq_scale * (large_column ? std::abs(kLowScoresKey) : 1), "dq" + where);
    near(got.dqkv, want.dqkv, z.Row(), q, kv, large_column, 0.1, "dk" + where);
    near(got.dqkv, want.dqkv, z.Row(), q + kv, kv, large_column, 0.1, "dv" + where);
  }
}

}  // namespace autocfg
