// Complete searches of synthetic studies: the quality of their choice and their cost.
#include <cstdint>

#include "gtest/gtest.h"
#include "search/planner/search_loop.h"
#include "search/planner/strategy/confirmation.h"
#include "search/planner/strategy/strategies.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/search/planner/made_up_study.h"

namespace autocfg {
namespace {

using test::Calibrated;
using test::Fp32;
using test::HiddenTruth;
using test::kAll;
using test::LocalRanks;
using test::Loop;
using test::RunStudy;
using test::SmallGpt;
using test::SyntheticDevice;

TEST(SearchLoop, ExhaustiveMeasuresEveryPlan) {
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
TEST(SearchLoop, ReadmeExampleMeasuresFewPlans) {
  ModelSpec tiny = SmallGpt(4, 128, 4, 1024);
  std::int64_t measured = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto loop = SearchLoop::Create(tiny, Fp32(48, 64), LocalRanks(4), {{"p2p_overlap", {"0"}}}, {});
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

TEST(SearchLoop, EstimatesTheCostOfAnExhaustiveSearch) {
  SearchLoop loop = Calibrated();
  EXPECT_EQ(loop.UnmeasuredDeviceSeconds(), 0);
  HiddenTruth truth(loop.Ranking(kAll), 6);
  RunStudy(loop, truth);
  double unmeasured = 0;
  for (const RankedPlan& r : loop.Ranking(kAll)) {
    if (!r.median_step_time_s) unmeasured += 0.5 + 7 * truth.Of(r.plan);
  }
  ASSERT_GT(unmeasured, 0);
  EXPECT_NEAR(loop.UnmeasuredDeviceSeconds() / unmeasured, 1, 0.1);
}

struct StudyFigures {
  int good = 0;  // studies whose choice is within the tolerance of the truly best plan
  int inside = 0,
      announced = 0;  // first trials with their true time inside the predicted interval
  std::int64_t measured = 0;
};

StudyFigures MadeUpStudies(std::uint64_t studies, double own, double tolerance,
                           const AxisValues& space = {}) {
  StudyFigures figures;
  const auto loop_of_study = [&] { return Loop({}, LocalRanks(8), Fp32(16, 32), space); };
  const OpTimes times = SyntheticDevice().Measure(loop_of_study().CalibrationOps());
  for (std::uint64_t study = 0; study < studies; ++study) {
    SearchLoop loop = loop_of_study();
    EXPECT_TRUE(loop.SetCalibration(times, 0).ok());
    HiddenTruth truth(loop.Ranking(kAll), 1000 + study, own);
    std::int64_t trials = 0;
    while (loop.phase() != SearchPhase::kDone) {
      for (const TrialRequest& r : loop.Next()) {
        if (r.repeat == 0) {
          const double t = truth.Of(r.plan);
          figures.inside += r.predicted.step_time_low_s <= t && t <= r.predicted.step_time_high_s;
          ++figures.announced;
        }
        ++trials;
        EXPECT_TRUE(loop.Observe(r.plan, r.repeat, TrialOutcome::kMeasured, truth.Measure(r.plan)).ok());
      }
    }
    EXPECT_LE(loop.counts().measured, kMostRaced);
    EXPECT_LE(trials, kMostRaced + kMostConfirmations);
    figures.measured += loop.counts().measured;
    figures.good += truth.Of(loop.Ranking(1).front().plan) <= (1 + tolerance) * truth.best();
  }
  ::testing::Test::RecordProperty("good", figures.good);
  ::testing::Test::RecordProperty("inside_percent", 100 * figures.inside / figures.announced);
  ::testing::Test::RecordProperty("measured_per_study",
                                  static_cast<int>(figures.measured) / static_cast<int>(studies));
  return figures;
}

// Over 200 synthetic studies, the choice is within 2% of the truly best plan in at least 95% of them, with at
// most 24 plans measured. The 90% intervals predicted for the trials cover 80 to 99% of the true times.
TEST(SearchLoop, RegretAndCoverage) {
  const StudyFigures figures = MadeUpStudies(200, 0.015, 0.02);
  EXPECT_GE(figures.good, 190);
  EXPECT_GE(figures.inside, 0.80 * figures.announced);
  EXPECT_LE(figures.inside, 0.99 * figures.announced);
}

// Each plan has an individual deviation of 6% that no feature explains. The choice is within 5% in at least
// 95 of 100 studies, and the intervals grow accordingly. The more plans with a deviation of their own, the
// faster is the best one by chance: the space keeps one way of messages and of rows.
TEST(SearchLoop, RegretWhenFeaturesExplainLess) {
  const StudyFigures figures = MadeUpStudies(100, 0.06, 0.05,
                                             {{"sp", {"0"}},
                                              {"zero", {"0"}},
                                              {"schedule", {"gpipe", "1f1b", "interleaved"}},
                                              {"scatter_gather", {"0"}}});
  EXPECT_GE(figures.good, 95);
  EXPECT_GE(figures.inside, 0.80 * figures.announced);
  EXPECT_LE(figures.inside, 0.99 * figures.announced);
}

}  // namespace
}  // namespace autocfg
