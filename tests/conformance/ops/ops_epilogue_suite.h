// The contract of matrix products with an epilogue, for every Ops that computes. Product, bias, activation
// and their gradients follow the separate definitions in ops_reference.h. Extends OpsSuite; include in the
// test file that instantiates that.
#pragma once

#include <vector>

#include "tests/conformance/ops/ops_fixture.h"
#include "tests/conformance/ops/ops_reference.h"
#include "tests/conformance/ops/ops_suite_activations.h"

namespace autocfg {

constexpr std::array<Activation, 4> kPlainActivations = {Activation::kGelu, Activation::kGeluErf,
                                                         Activation::kRelu, Activation::kSquaredRelu};
static_assert(kPlainActivations.size() + kGatedActivations.size() == kActivationCount);

// m, n, k: even and odd, smaller and larger than tiles and vectors.
constexpr std::array<std::array<std::int64_t, 3>, 6> kProductSizes{
    {{1, 1, 1}, {3, 5, 7}, {64, 64, 64}, {17, 130, 33}, {1, 9, 300}, {40, 256, 24}}};

// c = a b + bias.
inline Values ProductWithBias(std::int64_t m, std::int64_t n, std::int64_t k, const Values& a,
                              const Values& b, const Values& bias) {
  Values c = reference::Zeros(m * n);
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = bias[i % static_cast<std::size_t>(n)];
  reference::Matmul(m, n, k, a, false, b, false, c);
  return c;
}

// The fused products of a linear layer.
class OpsEpilogueSuite : public OpsSuite {};

TEST_P(OpsEpilogueSuite, MatmulBias) {
  for (const auto& [m, n, k] : kProductSizes) {
    const Values a = Random(m * k, 1), b = Random(k * n, 2), bias = Random(n, 3);
    const Tensor c = dev_.New({m, n});
    ops_.MatmulBias(dev_.Put({m, k}, a), dev_.Put({k, n}, b), dev_.Put({n}, bias), c, stream_);
    // the product may be rounded before the bias is added
    Near(c, ProductWithBias(m, n, k, a, b, bias), "c", 1, 1);
  }
}

TEST_P(OpsEpilogueSuite, MatmulResidual) {
  for (const auto& [m, n, k] : kProductSizes) {
    for (bool with_bias : {true, false}) {
      const Values a = Random(m * k, 1), b = Random(k * n, 2),
                   bias = with_bias ? Random(n, 3) : reference::Zeros(n);
      const Values residual = Random(m * n, 4, -8, 8);
      Values want = ProductWithBias(m, n, k, a, b, bias);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += residual[i];
      const Tensor residual_ = dev_.Put({m, n}, residual), c = dev_.New({m, n});
      ops_.MatmulResidual(dev_.Put({m, k}, a), dev_.Put({k, n}, b),
                          with_bias ? dev_.Put({n}, bias) : Tensor{}, residual_, c, stream_);
      Near(c, want, with_bias ? "c, with a bias" : "c", 1, 1);  // the product may be rounded first
      EXPECT_EQ(dev_.Get(residual_), residual) << "the input was changed";
    }
  }
}

TEST_P(OpsEpilogueSuite, MatmulActivationStoresPreAndResult) {
  for (const Activation activation : kPlainActivations) {
    for (const auto& [m, n, k] : kProductSizes) {
      for (bool with_bias : {true, false}) {
        const Values a = Random(m * k, 1), b = Random(k * n, 2),
                     bias = with_bias ? Random(n, 3) : reference::Zeros(n);
        const Values pre = ProductWithBias(m, n, k, a, b, bias);
        Values want = pre;
        for (double& v : want) v = reference::ActivationValue(activation, v);
        const Tensor pre_ = dev_.New({m, n}), y = dev_.New({m, n});
        ops_.MatmulActivation(activation, dev_.Put({m, k}, a), dev_.Put({k, n}, b),
                              with_bias ? dev_.Put({n}, bias) : Tensor{}, pre_, y, stream_);
        Near(pre_, pre, "pre of " + std::string(Name(activation)), 1, 1);  // as c above
        // from the rounded pre, or from the exact one
        Near(y, want, "y of " + std::string(Name(activation)), 2, 2);
      }
    }
  }
}

TEST_P(OpsEpilogueSuite, MatmulActivationBackward) {
  for (const Activation activation : kPlainActivations) {
    for (const auto& [m, n, k] : kProductSizes) {
      const Values dy = Random(m * k, 1), b = Random(n * k, 2), pre = Random(m * n, 3, -4, 4);
      Values want = reference::Zeros(m * n);
      reference::Matmul(m, n, k, dy, false, b, true, want);
      for (std::size_t i = 0; i < want.size(); ++i) want[i] *= reference::ActivationSlope(activation, pre[i]);
      const Tensor pre_ = dev_.Put({m, n}, pre), dpre = dev_.New({m, n});
      ops_.MatmulActivationBackward(activation, dev_.Put({m, k}, dy), dev_.Put({n, k}, b), pre_, dpre,
                                    stream_);
      Near(dpre, want, "dpre of " + std::string(Name(activation)), 2, 1);
      EXPECT_EQ(dev_.Get(pre_), pre) << "the input was changed";
    }
  }
}

TEST_P(OpsEpilogueSuite, MatmulBiasGradientWritesOrAddsToBoth) {
  for (const auto& [k, n, m] : kProductSizes) {
    for (const bool accumulate : {true, false}) {
      const Values x = Random(m * k, 1), dy = Random(m * n, 2);
      Values dw = Random(k * n, 3), dbias = Random(n, 4);
      const Tensor dw_ = dev_.PutGradient({k, n}, dw), dbias_ = dev_.PutGradient({n}, dbias);
      ops_.MatmulBiasGradient(dev_.Put({m, k}, x), dev_.Put({m, n}, dy), dw_, dbias_, accumulate, stream_);
      if (!accumulate) {
        dw = reference::Zeros(k * n);
        dbias = reference::Zeros(n);
      }
      reference::Matmul(k, n, m, x, true, dy, false, dw);
      for (std::size_t i = 0; i < dy.size(); ++i) dbias[i % static_cast<std::size_t>(n)] += dy[i];
      Near(dw_, dw, accumulate ? "dw" : "dw written");
      Near(dbias_, dbias, accumulate ? "dbias" : "dbias written");
    }
  }
}

// A product with the 1 x 1 identity passes x on unchanged.
TEST_P(OpsEpilogueSuite, PlainActivationsFromVerySmallToVeryLarge) {
  Values x = Random(1001, 1, -8, 8);
  for (double large : {20.0, 50.0, 1e3, 1e6, 1e12}) x.insert(x.end(), {large, -large});
  x.insert(x.end(), {0.0, 1e-12, -1e-12, 1e-30, -1e-30});
  for (double& v : x) v = Rounded(v);
  const auto n = static_cast<std::int64_t>(x.size());
  const Tensor one = dev_.Put({1, 1}, {1}), two = dev_.Put({1, 1}, {2}),
               ones = dev_.Put({n, 1}, Values(x.size(), 1));
  for (const Activation activation : kPlainActivations) {
    const Tensor pre = dev_.New({1, n}), y = dev_.New({1, n}), dpre = dev_.New({1, n});
    ops_.MatmulActivation(activation, one, dev_.Put({1, n}, x), {}, pre, y, stream_);
    ops_.MatmulActivationBackward(activation, two, ones, pre, dpre, stream_);
    EXPECT_EQ(dev_.Get(pre), x);
    const Values got_y = dev_.Get(y), got_dpre = dev_.Get(dpre);
    for (std::size_t i = 0; i < x.size(); ++i) {  // each relative to its own x, or to a square of it
      const double value = reference::ActivationValue(activation, x[i]),
                   slope = reference::ActivationSlope(activation, x[i]);
      const double rounding = NarrowRounding(dev_.type),
                   allowed = GetParam().tolerance * std::max({std::abs(x[i]), std::abs(value), 1e-30});
      ASSERT_NEAR(got_y[i], value, allowed + rounding * std::abs(value))
          << Name(activation) << " of " << x[i];
      ASSERT_NEAR(got_dpre[i], 2 * slope, 4 * GetParam().tolerance + rounding * std::abs(2 * slope))
          << "slope of " << Name(activation) << " at " << x[i];
    }
  }
}

TEST_P(OpsEpilogueSuite, PlainActivationsPropagateNaN) {
  for (const Activation activation : kPlainActivations) {
    const Tensor pre = dev_.Put({1, 1}, {0}), y = dev_.Put({1, 1}, {0});
    ops_.MatmulActivation(activation, dev_.Put({1, 1}, {std::nan("")}), dev_.Put({1, 1}, {1}), {}, pre, y,
                          stream_);
    EXPECT_TRUE(std::isnan(dev_.Get(y)[0])) << Name(activation);
  }
}

}  // namespace autocfg
