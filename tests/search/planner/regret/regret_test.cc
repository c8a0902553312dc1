// Complete searches of synthetic studies: the quality of their choice and their cost.
#include <cstdint>

#include "gtest/gtest.h"
#include "search/planner/search_loop.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/search/planner/made_up_study.h"
#include "tests/search/planner/many_studies.h"

namespace autocfg {
namespace {

using test::Calibrated;
using test::ExpectHonestIntervals;
using test::Fp32;
using test::HiddenTruth;
using test::kAll;
using test::LocalRanks;
using test::MadeUpStudies;
using test::RunStudy;
using test::SmallGpt;
using test::StudyFigures;
using test::SyntheticDevice;

TEST(Regret, ExhaustiveMeasuresEveryPlan) {
  SearchLoop loop = Calibrated(
      {.exhaustive = true}, {{"recompute", {"none", "full"}}, {"vpp", {"1", "3"}}, {"p2p_overlap", {"0"}}});
  HiddenTruth truth(loop.Ranking(kAll), 5);
  RunStudy(loop, truth);
  EXPECT_EQ(loop.counts().measured, loop.counts().predicted);
  EXPECT_EQ(loop.UnmeasuredDeviceSeconds(), 0);
  const auto ranking = loop.Ranking(kAll);
  EXPECT_LE(truth.Of(ranking[0].plan), truth.best() * 1.03);
}

// The README's example, but for messages that overlap: about twenty plans of some 500 are measured until the
// chance that another one is more than 1% faster is small.
TEST(Regret, ReadmeExampleMeasuresFewPlans) {
  ModelSpec tiny = SmallGpt(4, 128, 4, 1024);
  std::int64_t measured = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto loop = SearchLoop::Create({tiny, Fp32(48, 64), LocalRanks(4)}, {{"p2p_overlap", {"0"}}}, {});
    ASSERT_TRUE(loop.ok()) << loop.status();
    ASSERT_TRUE(loop->SetCalibration(SyntheticDevice().Measure(loop->CalibrationOps()), 0).ok());
    HiddenTruth truth(loop->Ranking(kAll), 300 + seed);
    RunStudy(*loop, truth);
    measured += loop->counts().measured;
  }
  ::testing::Test::RecordProperty("measured_of_20_studies", static_cast<int>(measured));
  EXPECT_LE(measured, 20 * 21);
  EXPECT_GE(measured, 20 * 6);
}

// The choice is within 2% of the truly best plan in at least 95% of the studies, with at most 24 plans
// measured.
// tests/search/planner/slow runs five times as many.
TEST(Regret, AndCoverage) {
  const StudyFigures figures = MadeUpStudies(40, 0.015, 0.02);
  EXPECT_GE(figures.good, 38);
  ExpectHonestIntervals(figures);
}

// Each plan has an individual deviation of 6% that no feature explains. The choice is within 5% in at least
// 95 of 100 studies, and the intervals grow accordingly. The more plans with a deviation of their own, the
// faster is the best one by chance: the space keeps one way of messages and of rows.
TEST(Regret, WhenFeaturesExplainLess) {
  const StudyFigures figures = MadeUpStudies(100, 0.06, 0.05,
                                             {{"sp", {"0"}},
                                              {"zero", {"0"}},
                                              {"schedule", {"gpipe", "1f1b", "interleaved"}},
                                              {"scatter_gather", {"0"}}});
  EXPECT_GE(figures.good, 95);
  ExpectHonestIntervals(figures);
}

}  // namespace
}  // namespace autocfg
