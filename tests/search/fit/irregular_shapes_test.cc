#include "search/fit/irregular_shapes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/support/block_shapes.h"

namespace autocfg {
namespace {

using test::kShape;
using test::WithMicroBatch;
using test::WithTp;

IrregularShapes One(const BlockShape& shape) { return {shape, false, kIrregularSigma}; }
IrregularShapes Family(BlockShape shape) {
  shape.micro_batch = 1;
  return {shape, true, kIrregularSigma};
}

TEST(IrregularShapes, TheFarthestHasTheLargestCommonDeviation) {
  const std::vector<StepDeviation> steps = {
      {kShape, 0.3, 100},    {WithMicroBatch(8), 0.3, 100},  // 4.2 deviations of their mean
      {WithTp(2), 0.5, 25},  {WithTp(2), 0.5, 25},           // 3.5
      {WithTp(8), 0.9, 100},                                 // one step alone
      {WithTp(1), 0.4, 100}, {WithTp(1), -0.4, 100},         // they disagree
  };
  EXPECT_EQ(FarthestGroup(steps, {}), Family(kShape));
  EXPECT_EQ(FarthestGroup(steps, {Family(kShape)}), Family(WithTp(2)));
  EXPECT_EQ(FarthestGroup(steps, {Family(kShape), One(WithTp(2)), Family(WithTp(2))}), std::nullopt);
}

// The other microbatches of the family are as the model says.
TEST(IrregularShapes, AShapeAloneMayBeTheFarthest) {
  const std::vector<StepDeviation> steps = {
      {kShape, 0.5, 100}, {kShape, 0.5, 100}, {WithMicroBatch(8), 0, 100}, {WithMicroBatch(8), 0, 100}};
  EXPECT_EQ(FarthestGroup(steps, {}), One(kShape));
}

TEST(IrregularShapes, OneStepAloneMakesNoneFar) {
  const std::vector<StepDeviation> steps = {
      {kShape, 9, 100}, {kShape, 0.05, 100}, {WithMicroBatch(8), -0.2, 100}};
  EXPECT_EQ(FarthestGroup(steps, {}), std::nullopt);
}

TEST(IrregularShapes, NoiseMakesNoneFar) {
  EXPECT_EQ(FarthestGroup({{kShape, 0.2, 100}, {kShape, 0.2, 100}}, {}), std::nullopt) << "2.8 deviations";
  EXPECT_EQ(FarthestGroup({}, {}), std::nullopt);
}

}  // namespace
}  // namespace autocfg
