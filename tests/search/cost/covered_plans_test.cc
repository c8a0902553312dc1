// Proves what a search relies on where it leaves out covered values (PlanOption::covered).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string_view>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/cost/memory/memory_model.h"
#include "search/plan/plan_options.h"
#include "search/plan/plan_text.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::RandomRun;
using test::RandomRuns;

// The plan with the other value of a flag.
ParallelPlan WithOther(const PlanOption& option, ParallelPlan plan) {
  const bool set = option.print(plan) == "1";
  EXPECT_TRUE(option.parse(option, set ? "0" : "1", plan).ok());
  return plan;
}

CostModel CostsThatHide(const RandomRun& run, const test::SyntheticDevice& device) {
  ClusterSpec cluster = test::LocalRanks(RankCount(run.plan));
  cluster.groups.front().device.kind = DeviceKind::kCuda;
  std::vector<OpDesc> ops = test::AllOps(run.model, run.workload, run.plan);
  for (const PlanOption& option : PlanOptions()) {
    if (option.covered == nullptr || !option.covered(run.plan)) continue;
    const auto more = test::AllOps(run.model, run.workload, WithOther(option, run.plan));
    ops.insert(ops.end(), more.begin(), more.end());
  }
  std::sort(ops.begin(), ops.end());
  ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
  return CostModel({run.model, run.workload, cluster}, device.Measure(ops));
}

// The other value takes the same memory, and at most the same predicted time. Latencies are at most some
// 0.1 ms. With longer ones, gathers of many small units before the first forward may take longer than what
// they save behind an update that another rank ends later.
TEST(CoveredPlans, OthersAreAsSmallAndAsFast) {
  RandomRuns runs(61, {.dp = {2, 3, 4}});
  std::mt19937_64 random(62);
  std::map<std::string_view, int> compared, faster;
  for (int i = 0; i < 2000; ++i) {
    const RandomRun run = runs.Next();
    // Messages that hide entirely, in part, and hardly.
    const double slower = std::vector{0.1, 1.0, 20.0}[random() % 3];
    test::SyntheticDevice device;
    device.link_alpha_s *= slower;
    device.link_bytes_per_s /= slower;
    for (const PlanOption& option : PlanOptions()) {
      if (option.covered == nullptr || !option.covered(run.plan)) continue;
      const ParallelPlan other = WithOther(option, run.plan);
      SCOPED_TRACE(PlanText(other));
      EXPECT_FALSE(FindIllegality({run.model, run.workload, other}, RankCount(other)));
      EXPECT_EQ(WorstRankMemory({run.model, run.workload, other}), WorstRankMemory(run));
      CostModel costs = CostsThatHide(run, device);
      const double covered_s = costs.Predict(run.plan).step_time_s,
                   other_s = costs.Predict(other).step_time_s;
      EXPECT_LE(other_s, covered_s * (1 + 1e-9)) << "messages slower by " << slower;
      ++compared[option.name];
      faster[option.name] += other_s < covered_s * 0.999;
    }
  }
  EXPECT_EQ(compared.size(), 2u);
  for (const auto& [name, count] : compared) {
    EXPECT_GE(count, 150) << name;
    EXPECT_GE(faster[name], 50) << name << ": " << count;
  }
}

}  // namespace
}  // namespace autocfg
