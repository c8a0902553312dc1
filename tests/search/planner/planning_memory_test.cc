// What planning takes of the heap, as malloc counts it.
#include <malloc.h>

#include <algorithm>
#include <memory>

#include "gtest/gtest.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/cost/timing/pipeline_costs.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/search_loop.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::SmallGpt;

std::size_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Sanitizers have a malloc of their own.
bool HeapIsCounted() {
  const std::size_t before = HeapBytes();
  const std::vector<char> block(1 << 20);
  return HeapBytes() >= before + block.size();
}

// Plans of thousands of stages, whose splits take most of the memory. None of their programs is timed: they
// are too large.
struct LongPipelines : Problem {
  LongPipelines() : Problem{SmallGpt(5040, 16, 2), Fp32(10080, 32), Described(2520)} {}

  AxisValues space = {{"tp", {"1"}},       {"pp", {"2520", "1260", "840", "630", "504", "420"}},
                      {"mbs", {"1"}},      {"recompute", {"none", "full:*"}},
                      {"split", {"auto"}}, {"schedule", {"1f1b", "gpipe"}}};

  static ClusterSpec Described(std::int64_t ranks) {
    ClusterSpec described = test::LocalRanks(ranks);
    described.local = false;
    return described;
  }
};

TEST(PlanningMemory, FeasiblePlansCountWhatTheyTake) {
  if (!HeapIsCounted()) GTEST_SKIP() << "malloc does not say what is allocated";
  const LongPipelines problem;
  const auto space =
      SearchSpace::Create(problem.model, problem.workload, 2520, problem.space, {.predict_only = true});
  ASSERT_TRUE(space.ok()) << space.status();
  CostModel costs(problem, std::make_shared<const NominalTimes>());
  const FeasiblePlans warm = *FindFeasiblePlans(*space, costs, std::int64_t{1} << 50);  // fills the caches
  const std::size_t before = HeapBytes();
  const FeasiblePlans found = *FindFeasiblePlans(*space, costs, std::int64_t{1} << 50);
  const auto taken = static_cast<double>(HeapBytes() - before);
  EXPECT_GT(taken, 1e5);
  EXPECT_NEAR(static_cast<double>(found.Bytes()), taken, 0.25 * taken);
}

TEST(PlanningMemory, OneSetOfPlansIsKeptAtATime) {
  if (!HeapIsCounted()) GTEST_SKIP() << "malloc does not say what is allocated";
  const LongPipelines problem;
  std::size_t peak = 0;
  const PlanningWatch watch = [&](const PlanningProgress&) {
    peak = std::max(peak, HeapBytes());
    return true;
  };
  const std::size_t before = HeapBytes();
  auto loop = SearchLoop::Create(problem, problem.space, {.predict_only = true}, watch);
  ASSERT_TRUE(loop.ok()) << loop.status();
  const auto plans = static_cast<double>(HeapBytes() - before);
  peak = 0;
  ASSERT_TRUE(loop->SetCalibration(std::make_shared<const NominalTimes>(), 0).ok());
  EXPECT_GT(peak, before);
  // Beside the plans, the costs of the longest pipeline are kept.
  const double costs = 2520.0 * (sizeof(StageCosts) + sizeof(RankCosts));
  EXPECT_LT(static_cast<double>(peak - before), 1.6 * plans + costs);
}

}  // namespace
}  // namespace autocfg
