#include "search/plan/plan_text.h"

#include <gtest/gtest.h>

#include <string>

namespace autocfg {
namespace {

TEST(PlanText, SplitsOfManyEqualStagesCanBeWrittenShort) {
  const auto plan = ParsePlanText("pp=64,split=1+2x62+1");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->split_layers.size(), 64u);
  EXPECT_EQ(plan->split_layers.front(), 1);
  EXPECT_EQ(plan->split_layers[62], 2);
  const std::string whole = PlanText(*plan);
  EXPECT_EQ(whole.find('x'), std::string::npos) << "programs read one number a stage";
  EXPECT_EQ(WithShortSplit(whole), "tp=1,pp=64,dp=1,mbs=1,split=1+2x62+1");
  for (const char* text : {"tp=1,pp=4,dp=1,mbs=1,split=9+8+8+7,zero=1", "tp=1,pp=2,dp=1,mbs=1", "",
                           "tp=1,pp=5,dp=1,mbs=1,split=1+2x3+1"}) {
    EXPECT_EQ(WithShortSplit(text), text);
  }
  EXPECT_EQ(WithShortSplit("pp=6,split=3+3+3+2+2+1,sp=1"), "pp=6,split=3x3+2+2+1,sp=1");
}

TEST(PlanText, BlanksAroundNamesAndValuesAreTaken) {
  const auto plan = ParsePlanText(" tp = 8 ,mbs= 2, recompute =full");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(PlanText(*plan), PlanText(*ParsePlanText("tp=8,mbs=2,recompute=full")));
  EXPECT_FALSE(ParsePlanText("t p=8").ok());
  EXPECT_FALSE(ParsePlanText("tp=8 8").ok());
}

TEST(PlanText, BadSplitsSayHowTheyAreWritten) {
  for (const char* split : {"2x", "x2", "2x0", "0x2", "2x2x2", "2x100001", "1+", "2 x2", "-1x2"}) {
    const auto plan = ParsePlanText(std::string("pp=2,split=") + split);
    ASSERT_FALSE(plan.ok()) << split;
    EXPECT_NE(plan.status().message().find("such as 9+8+8+7 or 1+2x62+1"), std::string::npos)
        << plan.status();
  }
}

}  // namespace
}  // namespace autocfg
