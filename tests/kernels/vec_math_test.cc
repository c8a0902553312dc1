#include "kernels/cpu/vec_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

namespace autocfg::cpu {
namespace {

template <typename T>
struct Range;
template <>
struct Range<float> {
  static constexpr double kLow = -87.3365, kHigh = 88.7228, kStep = 0.00037, kError = 2e-7;
};
template <>
struct Range<double> {
  static constexpr double kLow = -708.396, kHigh = 709.782, kStep = 0.0029, kError = 5e-16;
};

template <typename T>
class VecMath : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(VecMath, Types);

// The reference is long double; its exp is accurate to 19 digits.
TYPED_TEST(VecMath, ExpIsAccurateInTheFiniteRange) {
  using R = Range<TypeParam>;
  double worst = 0;
  for (double x = R::kLow; x < R::kHigh; x += R::kStep) {
    const auto value = static_cast<TypeParam>(x);
    if (value < static_cast<TypeParam>(R::kLow) || value > static_cast<TypeParam>(R::kHigh)) continue;
    const long double want = std::exp(static_cast<long double>(value));
    worst =
        std::max(worst, static_cast<double>(std::abs(static_cast<long double>(Exp(value)) - want) / want));
  }
  EXPECT_LT(worst, R::kError);
  EXPECT_GT(worst, 0);
}

TYPED_TEST(VecMath, ExpNearZero) {
  for (double x : {0.0, 1e-30, -1e-30, 1e-9, -1e-9, 1e-4, -1e-4}) {
    EXPECT_NEAR(Exp(static_cast<TypeParam>(x)), std::exp(static_cast<TypeParam>(x)),
                Range<TypeParam>::kError);
  }
  EXPECT_EQ(Exp(TypeParam(0)), TypeParam(1));
}

TYPED_TEST(VecMath, ExpBeyondTheFiniteRange) {
  constexpr TypeParam kInfinity = std::numeric_limits<TypeParam>::infinity();
  constexpr TypeParam kMax = std::numeric_limits<TypeParam>::max();
  for (TypeParam x : {TypeParam(-750), TypeParam(-1e4), TypeParam(-1e30), -kMax, -kInfinity})
    EXPECT_EQ(Exp(x), 0) << x;
  for (TypeParam x : {TypeParam(710), TypeParam(1e4), TypeParam(1e30), kMax, kInfinity})
    EXPECT_EQ(Exp(x), kInfinity) << x;
  EXPECT_TRUE(std::isnan(Exp(std::numeric_limits<TypeParam>::quiet_NaN())));
}

TYPED_TEST(VecMath, SigmoidIsHalfOfOnePlusTanh) {
  for (double x = -40; x <= 40; x += 0.00173) {
    const auto value = static_cast<TypeParam>(x);
    const long double want = 1 / (1 + std::exp(-static_cast<long double>(value)));
    ASSERT_NEAR(static_cast<double>(Sigmoid(value) / want), 1, 2 * Range<TypeParam>::kError) << x;
    const double tanh = std::tanh(static_cast<double>(value) / 2);
    ASSERT_NEAR(2 * static_cast<double>(Sigmoid(value)) - 1, tanh, 4 * Range<TypeParam>::kError) << x;
  }
  for (TypeParam x : {TypeParam(1e3), TypeParam(1e30), std::numeric_limits<TypeParam>::infinity()}) {
    EXPECT_EQ(Sigmoid(x), 1);
    EXPECT_EQ(Sigmoid(-x), 0);
  }
}

TYPED_TEST(VecMath, SoftCapIsATanh) {
  const double error = std::is_same_v<TypeParam, float> ? 3e-7 : 7e-16;
  for (const double cap : {0.5, 30.0}) {
    const auto c = static_cast<TypeParam>(cap);
    for (double x = -10; x < 10; x += 0.0037) {
      const auto value = static_cast<TypeParam>(x * cap);
      const long double tanh = std::tanh(static_cast<long double>(value) / static_cast<long double>(cap));
      const TypeParam capped = SoftCap(value, c);
      ASSERT_NEAR(static_cast<double>(capped), static_cast<double>(cap * tanh), error * cap) << x;
      ASSERT_NEAR(static_cast<double>(SoftCapSlope(capped, c)), static_cast<double>(1 - tanh * tanh),
                  3 * error)
          << x;
    }
    const TypeParam far = std::numeric_limits<TypeParam>::infinity();
    EXPECT_EQ(SoftCap(far, c), c);
    EXPECT_EQ(SoftCap(-far, c), -c);
    EXPECT_EQ(SoftCap(TypeParam(0), c), 0);
  }
}

TYPED_TEST(VecMath, NormalDistribution) {
  const double allowed = std::is_same_v<TypeParam, double> ? 5e-16 : 2e-7;
  for (double x = -40; x <= 40; x += 0.00173) {
    const auto value = static_cast<TypeParam>(x);
    const auto exact = static_cast<long double>(value);
    const NormalPoint<TypeParam> got = NormalAt(value);
    const long double below = std::erfc(-exact / std::sqrt(2.0L)) / 2;
    const long double density = std::exp(-exact * exact / 2) / std::sqrt(2 * std::acos(-1.0L));
    ASSERT_LE(std::abs(static_cast<long double>(got.below) - below), allowed) << x;
    ASSERT_LE(std::abs(static_cast<long double>(got.density) - density), allowed) << x;
  }
  for (TypeParam x : {TypeParam(1e3), TypeParam(1e30), std::numeric_limits<TypeParam>::infinity()}) {
    EXPECT_EQ(NormalAt(x).below, 1);
    EXPECT_EQ(NormalAt(-x).below, 0);
    EXPECT_EQ(NormalAt(x).density, 0);
  }
  EXPECT_TRUE(std::isnan(NormalAt(std::numeric_limits<TypeParam>::quiet_NaN()).below));
}

}  // namespace
}  // namespace autocfg::cpu
