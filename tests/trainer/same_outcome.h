// Compares the outcomes of two layouts of one training run: their steps must be equal.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/trainer/thread_ranks.h"

namespace autocfg::test {

inline void ExpectSameSteps(const TrainedRun& one, const TrainedRun& other, double tolerance) {
  ASSERT_EQ(other.steps.size(), one.steps.size());
  for (std::size_t s = 0; s < one.steps.size(); ++s) {
    EXPECT_NEAR(other.steps[s].loss, one.steps[s].loss, tolerance * one.steps[s].loss)
        << "loss of step " << s;
    EXPECT_NEAR(other.steps[s].grad_norm, one.steps[s].grad_norm, tolerance * one.steps[s].grad_norm)
        << "gradient norm of step " << s;
  }
}

// Compares each tensor within `tolerance` of its largest magnitude. The gradient of key biases is zero in
// theory where positions do not rotate them, so these hold only rounding errors and are compared absolutely.
inline void ExpectSameWeights(const ModelSpec& model, const TrainedRun& one, const TrainedRun& other,
                              double tolerance) {
  ASSERT_EQ(other.weights.size(), one.weights.size());
  const auto q = static_cast<std::size_t>(model.heads * model.head_dim);
  const auto kv = static_cast<std::size_t>(model.kv_heads * model.head_dim);
  for (const auto& [name, expected] : one.weights) {
    const std::vector<double>& got = other.weights.at(name);
    ASSERT_EQ(got.size(), expected.size()) << name;
    const bool of_attention = name.ends_with("c_attn.bias");
    const auto is_key_bias = [&](std::size_t i) {
      if (!of_attention || i < q || i >= q + kv) return false;
      const auto dim = static_cast<std::int64_t>(i - q) % model.head_dim;
      return model.position != Position::kRope || dim >= RotaryDims(model);
    };
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!is_key_bias(i)) largest = std::max(largest, std::abs(expected[i]));
    }
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(got[i] - expected[i]);
      if (is_key_bias(i)) {
        EXPECT_LE(difference, tolerance) << name << " at key bias " << i;
      } else {
        worst = std::max(worst, difference);
      }
    }
    EXPECT_GT(largest, 0) << name;
    EXPECT_LE(worst, tolerance * largest) << name;
  }
}

}  // namespace autocfg::test
