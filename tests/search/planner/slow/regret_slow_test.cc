// The regret of hundreds of synthetic studies.
#include "gtest/gtest.h"
#include "tests/search/planner/many_studies.h"

namespace autocfg {
namespace {

// As Regret.AndCoverage, over 200 studies.
TEST(RegretSlow, OfTwoHundredStudies) {
  const test::StudyFigures figures = test::MadeUpStudies(200, 0.015, 0.02);
  EXPECT_GE(figures.good, 190);
  test::ExpectHonestIntervals(figures);
}

}  // namespace
}  // namespace autocfg
