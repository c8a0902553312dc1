#include "search/cost/shape_corrections.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>

namespace autocfg {
namespace {

BlockCorrections Corrections(std::vector<ShapeCorrection> shapes) {
  return {.prior_sigma = 0.2, .own = 0.25, .octaves = 2, .shapes = std::move(shapes)};
}

constexpr BlockShape kShape{.hidden = 1024, .seq_len = 2048, .micro_batch = 2, .tp = 4};

TEST(ShapeCorrections, WithoutMeasuredShapesThePriorRemains) {
  const LogCorrection none = ShapeCorrections().At(kShape);
  EXPECT_EQ(none.mean, 0);
  EXPECT_EQ(none.sigma, 0);
  const LogCorrection prior = ShapeCorrections(Corrections({})).At(kShape);
  EXPECT_EQ(prior.mean, 0);
  EXPECT_EQ(prior.sigma, 0.2);
}

TEST(ShapeCorrections, AMeasuredShapeHasItsOwn) {
  BlockShape other = kShape;
  other.tp = 8;
  const ShapeCorrections corrections(Corrections({{other, -0.1, 0.02}, {kShape, 0.3, 0.01}}));
  EXPECT_EQ(corrections.At(kShape).mean, 0.3);
  EXPECT_EQ(corrections.At(kShape).sigma, 0.01);
  EXPECT_EQ(corrections.At(other).mean, -0.1);
}

// One measured shape: the mean and variance of a normal distribution given one of two correlated variables.
TEST(ShapeCorrections, AnotherShapeLeansOnItByTheDoublingsBetween) {
  const ShapeCorrections corrections(Corrections({{kShape, 0.3, 0.1}}));
  BlockShape other = kShape;
  other.hidden = 2048;    // one doubling
  other.micro_batch = 1;  // and another
  const double covariance = 0.04 * 0.75 * std::exp(-2.0 / 2);
  const double variance = 0.04 * (0.75 + 0.25 + 1e-6) + 0.01;
  const LogCorrection there = corrections.At(other);
  EXPECT_NEAR(there.mean, covariance / variance * 0.3, 1e-12);
  EXPECT_NEAR(there.sigma, std::sqrt(0.04 - covariance * covariance / variance), 1e-12);
}

TEST(ShapeCorrections, FarFromAllOfThemTheModelRemains) {
  const ShapeCorrections corrections(Corrections({{kShape, 0.3, 0.1}}));
  const LogCorrection far =
      corrections.At({.hidden = 1 << 20, .seq_len = 1 << 20, .micro_batch = 1 << 20, .tp = 1});
  EXPECT_NEAR(far.mean, 0, 1e-6);
  EXPECT_NEAR(far.sigma, 0.2, 1e-6);
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Sums of independent factors have the covariances that the shapes' factors have.
TEST(ShapeBasis, FactorsHaveTheCovarianceOfTheShapes) {
  const BlockCorrections prior = Corrections({});
  std::vector<BlockShape> shapes;
  for (const std::int64_t mbs : {1, 2, 8}) {
    for (const std::int64_t tp : {1, 4}) {
      shapes.push_back(kShape);
      shapes.back().micro_batch = mbs;
      shapes.back().tp = tp;
    }
  }
  const BlockShape unmeasured = shapes.back();
  shapes.pop_back();
  std::vector<BlockShape> given = shapes;
  given.push_back(shapes.front());  // again
  const ShapeBasis basis(prior, given);
  ASSERT_EQ(basis.size(), 5);
  for (const BlockShape& a : shapes) {
    const ShapeBasis::Coordinates at_a = basis.At(a);
    EXPECT_EQ(at_a.own_variance, 0);
    EXPECT_NEAR(Dot(at_a.measured, at_a.measured), 0.04, 1e-6);
    for (const BlockShape& b : shapes) {
      if (b == a) continue;
      EXPECT_NEAR(Dot(at_a.measured, basis.At(b).measured), ShapeCovariance(prior, a, b), 1e-12);
    }
    EXPECT_NEAR(Dot(at_a.measured, basis.At(unmeasured).measured), ShapeCovariance(prior, a, unmeasured),
                1e-12);
  }
  const ShapeBasis::Coordinates at = basis.At(unmeasured);
  EXPECT_GT(at.own_variance, 0.04 * 0.25);
  EXPECT_NEAR(Dot(at.measured, at.measured) + at.own_variance, 0.04, 1e-12);
}

TEST(ShapeBasis, WithoutMeasuredShapesAllIsLeftOver) {
  const ShapeBasis basis(Corrections({}), {});
  EXPECT_EQ(basis.size(), 0);
  EXPECT_NEAR(basis.At(kShape).own_variance, 0.04, 1e-12);
  EXPECT_EQ(ShapeBasis().At(kShape).own_variance, 0);
}

}  // namespace
}  // namespace autocfg
