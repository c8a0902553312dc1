// The quality of the choices of many synthetic searches.
#pragma once

#include <cstdint>

#include "gtest/gtest.h"
#include "search/planner/search_loop.h"
#include "search/planner/strategy/confirmation.h"
#include "search/planner/strategy/strategies.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/search/planner/made_up_study.h"

namespace autocfg::test {

struct StudyFigures {
  int good = 0;  // studies whose choice is within the tolerance of the truly best plan
  int inside = 0,
      announced = 0;  // first trials with their true time inside the predicted interval
  std::int64_t measured = 0;
};

// Runs `studies` searches. Each plan has an individual deviation with the standard deviation `own`. A choice
// is good within `tolerance` of the best plan.
inline StudyFigures MadeUpStudies(std::uint64_t studies, double own, double tolerance,
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

// The 90% intervals predicted for the trials cover 80 to 99% of the true times.
inline void ExpectHonestIntervals(const StudyFigures& figures) {
  EXPECT_GE(figures.inside, 0.80 * figures.announced);
  EXPECT_LE(figures.inside, 0.99 * figures.announced);
}

}  // namespace autocfg::test
