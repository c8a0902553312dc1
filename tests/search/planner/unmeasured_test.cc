#include <memory>

#include "gtest/gtest.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/plan/plan_text.h"
#include "search/planner/search_state.h"
#include "search/planner/slice.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::SmallGpt;

constexpr double kStart = 2, kSlope = 3;  // a trial's start-up time, and its length in steps

// A search over all plans of a small model with four candidates, whose predictions measurements raised by
// 20%. Two of them were measured, one failed.
SearchState HalfWay(std::int64_t measurable_ranks) {
  SearchState s;
  s.problem = {SmallGpt(), Fp32(16, 32), LocalRanks(8)};
  s.options.measurable_ranks = measurable_ranks;
  s.space = *SearchSpace::Create(s.problem.model, s.problem.workload, 8, {}, {});
  s.costs = std::make_unique<CostModel>(s.problem, std::make_shared<const NominalTimes>());
  s.feasible = *s.FindFeasible(*s.costs);
  s.timed = *PredictTimes(*s.costs, s.feasible);
  s.calibrated = true;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t chosen = 7 * i;
    s.records.push_back({.feasible = chosen, .raw = s.RawPrediction(chosen), .steps = {}});
    CandidatePlan& c = s.candidates.emplace_back();
    c.plan = s.feasible.PlanAt(chosen);
    c.predicted = s.records[i].raw;
    c.predicted.step_time_s *= 1.2;
  }
  for (const std::size_t i : {0u, 1u}) {
    SearchState::Record& r = s.records[i];
    const double t = i == 0 ? 0.01 : 0.05;
    r.steps = {t, t, t};
    r.first_steps = 3;
    r.first_device_s = kStart + kSlope * t;
  }
  s.candidates[3].failed = true;
  return s;
}

// Sums over every plan except the two that were measured and the one that failed.
double Expected(const SearchState& s, double (*seconds)(const SearchState&, std::size_t)) {
  double sum = 0;
  for (std::size_t i = 0; i < s.feasible.plans.size(); ++i) {
    if (i == 0 || i == 7 || i == 21) continue;
    sum += kStart + kSlope * 1.2 * seconds(s, i);
  }
  return sum;
}

TEST(Unmeasured, SumsStartUpAndCorrectedTimes) {
  const SearchState s = HalfWay(0);
  ASSERT_GT(s.feasible.plans.size(), 100u);
  const double expected =
      Expected(s, [](const SearchState& of, std::size_t i) { return of.feasible.plans[i].seconds; });
  EXPECT_NEAR(UnmeasuredDeviceSeconds(s), expected, 1e-9 * expected);
}

TEST(Unmeasured, CountsSlicesOfLargerPlans) {
  const SearchState s = HalfWay(4);
  const double expected = Expected(s, [](const SearchState& of, std::size_t i) {
    const ParallelPlan plan = of.feasible.PlanAt(i);
    return SliceSeconds(*of.costs, plan, ChooseSlice(*of.costs, plan).pipeline);
  });
  EXPECT_NEAR(UnmeasuredDeviceSeconds(s), expected, 1e-9 * expected);
  EXPECT_LT(UnmeasuredDeviceSeconds(s), UnmeasuredDeviceSeconds(HalfWay(0)));
}

TEST(Unmeasured, IsZeroBeforeATrial) {
  SearchState s = HalfWay(0);
  for (SearchState::Record& r : s.records) r.first_steps = 0;
  EXPECT_EQ(UnmeasuredDeviceSeconds(s), 0);
}

}  // namespace
}  // namespace autocfg
