// Searches with plans that are larger than the machine, so that one rank of each runs alone.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "search/plan/plan_text.h"
#include "search/planner/search_loop.h"
#include "search/planner/slice.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/search/planner/made_up_study.h"

namespace autocfg {
namespace {

using test::Calibrated;
using test::Fp32;
using test::kAll;
using test::LocalRanks;
using test::Loop;
using test::SmallGpt;
using test::SyntheticDevice;

// A slice takes its own ops' times, times a hidden factor. The whole step adds messages and bubbles as
// predicted.
TEST(SearchLoop, MeasuresSlicesOfPlansLargerThanTheMachine) {
  SearchLoop loop = Calibrated({.measurable_ranks = 4});
  CostModel costs({SmallGpt(12, 128, 8), Fp32(16, 32), LocalRanks(8)},
                  SyntheticDevice().Measure(Loop().CalibrationOps()));
  std::map<ParallelPlan, double> predicted;
  for (const RankedPlan& r : loop.Ranking(kAll)) predicted[r.plan] = r.predicted.step_time_s;
  std::map<ParallelPlan, double> expected;  // the step time as corrected by its slice
  int rounds = 0;
  while (loop.phase() != SearchPhase::kDone) {
    ++rounds;
    for (const TrialRequest& r : loop.Next()) {
      ASSERT_TRUE(r.slice.has_value());
      EXPECT_EQ(r.repeat, 0) << "no confirmation among slices";
      EXPECT_EQ(r.slice->tensor, 0);
      EXPECT_EQ(*r.slice, ChooseSlice(costs, r.plan));
      const double slice = SliceSeconds(costs, r.plan, r.slice->pipeline);
      const double took = slice * (r.plan.tp > 1 ? 1.5 : 1.1);
      EXPECT_FALSE(loop.Observe(r.plan, 0, TrialOutcome::kMeasured, {{took, took, took}, 1.0, false}).ok())
          << "a slice was asked for";
      ASSERT_TRUE(loop.Observe(r.plan, 0, TrialOutcome::kMeasured, {{took, took, took}, 1.0, true}).ok());
      expected[r.plan] = took - slice;
    }
  }
  EXPECT_GT(rounds, 1);
  EXPECT_EQ(loop.counts().slices, loop.counts().measured);
  EXPECT_EQ(loop.counts().slices, static_cast<std::int64_t>(expected.size()));
  const auto ranking = loop.Ranking(kAll);
  double last = 0;
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    const RankedPlan& r = ranking[i];
    EXPECT_EQ(r.slice, expected.contains(r.plan));
    EXPECT_GE(r.predicted.step_time_s, last * (1 - 1e-9)) << "all are predictions, on one scale";
    last = r.predicted.step_time_s;
    EXPECT_FALSE(r.median_step_time_s.has_value()) << "a slice is not a measured step";
    if (!r.slice) continue;
    const double raw = predicted.at(r.plan);
    EXPECT_NEAR(r.predicted.step_time_s, raw + expected.at(r.plan), 1e-9 * raw);
    EXPECT_NEAR(r.predicted.breakdown.Total(), r.predicted.step_time_s, 1e-9 * raw);
    EXPECT_LT(r.predicted.step_time_low_s, r.predicted.step_time_s);
    EXPECT_GT(r.predicted.step_time_high_s, r.predicted.step_time_s);
  }
  EXPECT_TRUE(ranking.front().slice) << "the race ends when nothing unmeasured may be faster";
  EXPECT_EQ(ranking.front().plan.tp, 1) << "slices of tp=2 and more came out half as slow again";
  EXPECT_GT(loop.UnmeasuredDeviceSeconds(), 0);
}

// Returns all parts except compute.
std::vector<double> OtherParts(const Breakdown& b) {
  return {b.recompute, b.tp_comm, b.pp_comm, b.dp_comm, b.bubble, b.optimizer, b.overhead};
}

// The slices are faster than predicted. The deviation is taken from compute as far as possible; beyond that,
// all parts shrink in proportion. The parts that a slice does not show stay as uncertain as before.
TEST(SearchLoop, FasterSlicesShortenTheStep) {
  for (const double factor : {0.6, 0.1}) {
    SCOPED_TRACE(factor);
    SearchLoop loop = Calibrated({.measurable_ranks = 4});
    CostModel costs({SmallGpt(12, 128, 8), Fp32(16, 32), LocalRanks(8)},
                    SyntheticDevice().Measure(Loop().CalibrationOps()));
    std::map<ParallelPlan, Prediction> before;
    for (const RankedPlan& r : loop.Ranking(kAll)) before[r.plan] = r.predicted;
    std::map<ParallelPlan, double> slices;
    while (loop.phase() != SearchPhase::kDone) {
      for (const TrialRequest& r : loop.Next()) {
        const double slice = slices[r.plan] = SliceSeconds(costs, r.plan, r.slice->pipeline);
        const double took = factor * slice;
        ASSERT_TRUE(loop.Observe(r.plan, 0, TrialOutcome::kMeasured, {{took, took, took}, 1.0, true}).ok());
      }
    }
    int of_compute = 0, of_all = 0;
    for (const RankedPlan& r : loop.Ranking(kAll)) {
      const Prediction &p = r.predicted, &raw = before.at(r.plan);
      EXPECT_NEAR(p.breakdown.Total(), p.step_time_s, 1e-9 * p.step_time_s) << PlanText(r.plan);
      EXPECT_GE(p.breakdown.compute, 0) << PlanText(r.plan);
      const std::vector<double> parts = OtherParts(p.breakdown), raw_parts = OtherParts(raw.breakdown);
      for (const double part : parts) EXPECT_GE(part, 0) << PlanText(r.plan);
      if (!r.slice) continue;
      const double slice = slices.at(r.plan), took = factor * slice;
      EXPECT_NEAR(p.step_time_s, std::max(took, raw.step_time_s + took - slice), 1e-9 * raw.step_time_s);
      const bool has_compute = raw.breakdown.compute >= raw.step_time_s - p.step_time_s;
      ++(has_compute ? of_compute : of_all);
      const double shrink = has_compute ? 1 : p.step_time_s / raw.step_time_s;
      for (std::size_t i = 0; i < parts.size(); ++i)
        EXPECT_NEAR(parts[i], shrink * raw_parts[i], 1e-9 * raw.step_time_s) << PlanText(r.plan);
      const double unseen = (p.step_time_s - took) / p.step_time_s;
      EXPECT_GE(std::log(p.step_time_high_s / p.step_time_s), 1.645 * 0.1 * unseen * (1 - 1e-9))
          << PlanText(r.plan);
      EXPECT_NEAR(p.step_time_low_s * p.step_time_high_s, p.step_time_s * p.step_time_s,
                  1e-9 * p.step_time_s * p.step_time_s);
    }
    EXPECT_GT(factor < 0.5 ? of_all : of_compute, 0);
  }
}

// A search that is cut short, with slices twice as slow as predicted. They shift all predictions. The answer
// is the fastest plan by prediction, whether or not a slice of it was measured; no plan with more recompute
// overtakes it.
TEST(SearchLoop, FewSlicesRecalibrateAllPredictions) {
  SearchLoop loop = Calibrated({.max_trials = 3, .measurable_ranks = 4});
  CostModel costs({SmallGpt(12, 128, 8), Fp32(16, 32), LocalRanks(8)},
                  SyntheticDevice().Measure(Loop().CalibrationOps()));
  std::map<ParallelPlan, double> before;
  for (const RankedPlan& r : loop.Ranking(kAll)) before[r.plan] = r.predicted.step_time_s;
  double factor = 2.5;  // the most promising plan turns out worst
  while (loop.phase() != SearchPhase::kDone) {
    for (const TrialRequest& r : loop.Next()) {
      const double took = factor * SliceSeconds(costs, r.plan, r.slice->pipeline);
      factor = 2;
      ASSERT_TRUE(loop.Observe(r.plan, 0, TrialOutcome::kMeasured, {{took, took, took}, 1.0, true}).ok());
    }
  }
  EXPECT_EQ(loop.counts().slices, 3);
  const auto ranking = loop.Ranking(kAll);
  std::map<ParallelPlan, double> after;
  std::size_t slower = 0;
  for (const RankedPlan& r : ranking) {
    EXPECT_GE(r.predicted.step_time_s, ranking.front().predicted.step_time_s * (1 - 1e-9))
        << PlanText(r.plan);
    slower += r.predicted.step_time_s > 1.1 * before.at(r.plan);
    after[r.plan] = r.predicted.step_time_s;
  }
  EXPECT_EQ(slower, ranking.size());
  for (const auto& [plan, seconds] : after) {
    ParallelPlan less = plan;
    less.recompute = Recompute::kNone;
    less.recompute_layers = 0;
    if (const auto found = after.find(less); found != after.end()) {
      EXPECT_GE(seconds, found->second * (1 - 1e-9)) << PlanText(plan);
    }
  }
}

TEST(SearchLoop, PlansThatFitTheMachineAreNotSliced) {
  SearchLoop loop = Calibrated({.measurable_ranks = 8});
  const auto requests = loop.Next();
  ASSERT_FALSE(requests.empty());
  for (const TrialRequest& r : requests) EXPECT_FALSE(r.slice.has_value());
  EXPECT_FALSE(loop.Observe(requests[0].plan, 0, TrialOutcome::kMeasured, {{0.1, 0.1}, 1.0, true}).ok());
  EXPECT_TRUE(loop.Observe(requests[0].plan, 0, TrialOutcome::kMeasured, {{0.1, 0.1}, 1.0, false}).ok());
  EXPECT_EQ(loop.counts().slices, 0);
}

}  // namespace
}  // namespace autocfg
