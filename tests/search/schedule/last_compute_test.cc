// Each rank has one last compute, under every schedule.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "search/schedule/action_kinds.h"
#include "search/schedule/compute_order.h"
#include "tests/search/schedule/programs.h"
#include "tests/support/plan_values.h"

namespace autocfg {
namespace {

TEST(IsLastCompute, IsTheLastStageComputeOfEachRank) {
  std::mt19937_64 random(41);
  const auto between = [&random](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  const std::vector<Schedule> schedules = test::PredictedSchedules();
  ASSERT_EQ(schedules.size(), kScheduleCount);
  std::map<Schedule, int> pipelines;
  for (int i = 0; i < 400; ++i) {
    ParallelPlan plan{{.tp = between(1, 2), .pp = between(1, 6), .dp = between(1, 2)}};
    std::int64_t microbatches = between(1, 12);
    if (plan.pp > 1) plan.schedule = schedules[random() % schedules.size()];
    if (TakesVirtualStages(plan.schedule)) {
      plan.virtual_stages = between(2, 4);
      microbatches = plan.pp * between(1, 3);
    }
    plan.p2p_overlap = random() % 2 == 0;
    plan.grad_overlap = plan.dp > 1;
    SCOPED_TRACE(::testing::Message() << "schedule " << Name(plan.schedule) << " pp " << plan.pp << " vpp "
                                      << plan.virtual_stages << " m " << microbatches);
    ++pipelines[plan.schedule];
    for (const RankProgram& actions : test::Make(plan, microbatches).ranks) {
      const auto is_last = [&](const Action& action) { return IsLastCompute(plan, microbatches, action); };
      const auto computes = [](const Action& action) { return IsStageCompute(action.kind); };
      ASSERT_EQ(std::count_if(actions.begin(), actions.end(), is_last), 1);
      const auto last = std::find_if(actions.begin(), actions.end(), is_last);
      ASSERT_TRUE(computes(*last)) << ToString(*last);
      const auto later = std::find_if(std::next(last), actions.end(), computes);
      ASSERT_TRUE(later == actions.end()) << ToString(*last) << ", then " << ToString(*later);
    }
  }
  EXPECT_EQ(pipelines.size(), kScheduleCount);
  for (const auto& [schedule, count] : pipelines) EXPECT_GE(count, 50) << Name(schedule);
}

}  // namespace
}  // namespace autocfg
