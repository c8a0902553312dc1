// OpsSuite: activations of a gate and an up, and the forward of others. Those are also epilogues of products,
// as are their gradients (ops_epilogue_suite.h).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/conformance/ops/ops_fixture.h"
#include "tests/conformance/ops/ops_reference.h"

namespace autocfg {

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

TEST_P(OpsSuite, OtherActivationsStoreTheBiasedInput) {
  const std::int64_t rows = 3, width = 21;
  for (int i = 0; i < kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    if (IsGated(activation)) continue;
    const Values x = Random(rows * width, 1, -6, 6), bias = Random(width, 2);
    for (const bool with_bias : {true, false}) {
      Values sum = x;
      for (std::size_t e = 0; with_bias && e < x.size(); ++e) sum[e] += bias[e % width];
      Values want = sum;
      for (double& v : want) v = reference::ActivationValue(activation, v);
      const Tensor x_ = dev_.Put({rows, width}, x), y = dev_.New({rows, width});
      ops_.ActivationForward(activation, x_, with_bias ? dev_.Put({width}, bias) : Tensor{}, y, stream_);
      const std::string name(Name(activation));
      Near(x_, sum, "x of " + name);
      Near(y, want, "y of " + name, 6, 2);
    }
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

}  // namespace autocfg
