#include "search/planner/plans/distinct_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

using ::testing::ElementsAre;

std::vector<ParallelPlan> Plans(const std::vector<std::string>& texts) {
  std::vector<ParallelPlan> plans;
  for (const std::string& text : texts) {
    const auto plan = ParsePlanText(text);
    EXPECT_TRUE(plan.ok()) << plan.status();
    plans.push_back(*plan);
  }
  return plans;
}

TEST(DistinctPlans, CountsOptionsAndAllOverlapsAsOne) {
  const auto plans = Plans({"tp=4,pp=4,dp=2,sp=1,zero=1",
                            "tp=4,pp=4,dp=2,sp=1,zero=1,tp_overlap=4,grad_overlap=1,p2p_overlap=1",
                            "tp=4,pp=4,dp=2,mbs=2,sp=1", "tp=8,pp=2,dp=2,sp=1,zero=1,scatter_gather=1"});
  EXPECT_EQ(OptionsApart(plans[0], plans[0]), 0);
  EXPECT_EQ(OptionsApart(plans[0], plans[1]), 1);
  EXPECT_EQ(OptionsApart(plans[0], plans[2]), 2) << "mbs, zero";
  EXPECT_EQ(OptionsApart(plans[1], plans[2]), 3);
  EXPECT_EQ(OptionsApart(plans[0], plans[3]), 3) << "tp, pp, one for the overlap";
}

TEST(DistinctPlans, KeepsTwoNeighboursAtMost) {
  const auto ranking = Plans({"tp=4,pp=2", "tp=4,pp=2,p2p_overlap=1", "tp=4,pp=2,sp=1", "tp=4,pp=2,mbs=2",
                              "tp=8,pp=1", "tp=8,pp=1,sp=1", "tp=2,pp=4,sp=1"});
  EXPECT_THAT(DistinctPlans(ranking, 10), ElementsAre(0, 1, 2, 4, 6));
  EXPECT_THAT(DistinctPlans(ranking, 4), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(DistinctPlans(std::span(ranking).first(1), 4), ElementsAre(0));
  EXPECT_TRUE(DistinctPlans({}, 4).empty());
}

}  // namespace
}  // namespace autocfg
