#include "search/cost/shape_corrections.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>

#include "tests/support/block_shapes.h"

namespace autocfg {
namespace {

using test::kShape;
using test::WithMicroBatch;
using test::WithTp;

BlockCorrections Corrections(std::vector<ShapeCorrection> shapes) {
  return {.prior_sigma = 0.2, .own = 0.25, .octaves = 2, .shapes = std::move(shapes)};
}

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

// All microbatches of kShape.
constexpr IrregularShapes kFamily{.shape = {.hidden = 1024, .seq_len = 2048, .micro_batch = 1, .tp = 4},
                                  .all_micro_batches = true,
                                  .sigma = 0.5};

TEST(IrregularShapes, AreAShapeOrAllItsMicrobatches) {
  const IrregularShapes one{.shape = kShape, .all_micro_batches = false, .sigma = 0.5};
  EXPECT_TRUE(one.Holds(kShape));
  EXPECT_FALSE(one.Holds(WithMicroBatch(8)));
  EXPECT_TRUE(kFamily.Holds(kShape));
  EXPECT_TRUE(kFamily.Holds(WithMicroBatch(8)));
  EXPECT_FALSE(kFamily.Holds(WithTp(2)));
}

TEST(IrregularShapes, ShareAFactor) {
  const BlockCorrections regular = Corrections({});
  BlockCorrections irregular = regular;
  irregular.irregular = {kFamily, {.shape = WithTp(2), .all_micro_batches = false, .sigma = 0.3}};
  EXPECT_NEAR(ShapeVariance(regular, kShape), 0.04, 1e-12);
  EXPECT_NEAR(ShapeVariance(irregular, kShape), 0.04 + 0.25, 1e-12);
  EXPECT_NEAR(ShapeVariance(irregular, WithTp(2)), 0.04 + 0.09, 1e-12);
  EXPECT_NEAR(ShapeVariance(irregular, WithTp(1)), 0.04, 1e-12);
  const auto more = [&](const BlockShape& a, const BlockShape& b) {
    return ShapeCovariance(irregular, a, b) - ShapeCovariance(regular, a, b);
  };
  EXPECT_NEAR(more(kShape, WithMicroBatch(8)), 0.25, 1e-12);
  EXPECT_NEAR(more(kShape, WithTp(2)), 0, 1e-12);
}

// A microbatch of the family that was not measured follows a measured one; a shape beside it hardly does.
TEST(ShapeCorrections, WhatIsMeasuredOfAFamilyReachesItsOtherMicrobatches) {
  const BlockCorrections regular = Corrections({{kShape, 0.6, 0.01}});
  BlockCorrections irregular = regular;
  irregular.irregular = {kFamily};
  const double covariance = 0.04 * 0.75 * std::exp(-2.0 / 2);  // two doublings
  const double variance = (0.04 + 0.25) * (1 + 1e-6) + 0.0001;
  const LogCorrection member = ShapeCorrections(irregular).At(WithMicroBatch(8));
  EXPECT_NEAR(member.mean, (covariance + 0.25) / variance * 0.6, 1e-12);
  EXPECT_NEAR(member.sigma, std::sqrt(0.04 + 0.25 - (covariance + 0.25) * (covariance + 0.25) / variance),
              1e-12);
  EXPECT_NEAR(ShapeCorrections(irregular).At(WithTp(1)).mean, covariance / variance * 0.6, 1e-12);
  EXPECT_GT(ShapeCorrections(regular).At(WithTp(1)).mean, 0.1) << "no shape is known to be irregular";
}

// The largest deviation of a group that a calibration may have, over the least of the shapes.
TEST(ShapeCorrections, AlikeShapesOfAGroupGiveNoHugeFactor) {
  BlockCorrections corrections{.prior_sigma = 1e-6, .own = 0.2, .octaves = 1e6, .shapes = {}};
  corrections.irregular = {kFamily};
  corrections.irregular[0].sigma = 10;
  for (std::int64_t micro_batch = 1; micro_batch <= 40; ++micro_batch)
    corrections.shapes.push_back({WithMicroBatch(micro_batch), micro_batch % 2 == 0 ? 1.0 : -1.0, 0});
  const LogCorrection there = ShapeCorrections(corrections).At(WithMicroBatch(64));
  EXPECT_LT(std::abs(there.mean), 1);
  EXPECT_LT(there.sigma, 10);
}

TEST(ShapeCorrections, NoMeasuredMemberLeavesItsGroupUnknown) {
  BlockCorrections irregular = Corrections({});
  irregular.irregular = {kFamily};
  EXPECT_NEAR(ShapeCorrections(irregular).At(kShape).sigma, std::sqrt(0.29), 1e-12);
  irregular.prior_sigma = 0;
  EXPECT_EQ(ShapeCorrections(irregular).At(kShape).sigma, 0) << "there are no corrections";
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Sums of independent factors have the covariances that the shapes' factors have.
TEST(ShapeBasis, FactorsHaveTheCovarianceOfTheShapes) {
  BlockCorrections prior = Corrections({});
  prior.irregular = {kFamily};
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
    EXPECT_NEAR(Dot(at_a.measured, at_a.measured), ShapeVariance(prior, a), 1e-6);
    for (const BlockShape& b : shapes) {
      if (b == a) continue;
      EXPECT_NEAR(Dot(at_a.measured, basis.At(b).measured), ShapeCovariance(prior, a, b), 1e-12);
    }
    EXPECT_NEAR(Dot(at_a.measured, basis.At(unmeasured).measured), ShapeCovariance(prior, a, unmeasured),
                1e-12);
  }
  const ShapeBasis::Coordinates at = basis.At(unmeasured);
  EXPECT_GT(at.own_variance, 0.04 * 0.25);
  EXPECT_NEAR(Dot(at.measured, at.measured) + at.own_variance, ShapeVariance(prior, unmeasured), 1e-12);
}

TEST(ShapeBasis, WithoutMeasuredShapesAllIsLeftOver) {
  const ShapeBasis basis(Corrections({}), {});
  EXPECT_EQ(basis.size(), 0);
  EXPECT_NEAR(basis.At(kShape).own_variance, 0.04, 1e-12);
  EXPECT_EQ(ShapeBasis().At(kShape).own_variance, 0);
}

}  // namespace
}  // namespace autocfg
