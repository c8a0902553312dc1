#include "search/planner/plans/plan_table.h"

#include "gtest/gtest.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

TEST(PlanTable, GivesBackWhatWasPacked) {
  PlanTable table;
  std::vector<CompactPlan> packed;
  const std::vector<std::string> texts = {
      "tp=8,pp=64,dp=6,mbs=4", "tp=1,pp=2,dp=1,mbs=1,schedule=gpipe,recompute=full:3",
      "tp=1,pp=2,dp=1,mbs=2,vpp=2,split=1+2+3+4,recompute=full",
      "tp=2,pp=2,dp=1,mbs=1,split=5+5,attention=unfused,scatter_gather=1",
      "tp=1,pp=2,dp=1,mbs=1,split=1+2+3+4,vpp=2,recompute=selective,attention=unfused"};
  for (const std::string& text : texts) packed.push_back(table.Pack(*ParsePlanText(text)));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(table.Unpack(packed[i]), *ParsePlanText(texts[i])) << texts[i];
    EXPECT_EQ(table.Pack(*ParsePlanText(texts[i])), packed[i]);
  }
  ParallelPlan wider = *ParsePlanText(texts[3]);
  wider.dp = 4;
  EXPECT_EQ(table.Pack(wider).variant, packed[3].variant) << "kept once";
  EXPECT_NE(packed[2].variant, packed[3].variant);
  EXPECT_LE(sizeof(CompactPlan), 20u) << "a million of them are kept";
}

TEST(PlanTable, KeepsTheSplitOfAVariantOnce) {
  PlanTable table;
  ParallelPlan plan{{.pp = 100'000}, {}, {.split = SplitMode::kExplicit}};
  plan.split_layers.assign(100'000, 1);
  const CompactPlan packed = table.Pack(plan);
  const std::size_t split_bytes = plan.split_layers.size() * sizeof(plan.split_layers[0]);
  EXPECT_GE(table.Bytes(), split_bytes);
  EXPECT_LT(table.Bytes(), split_bytes + 1024);
  const PlanTable moved = std::move(table);
  EXPECT_EQ(moved.Unpack(packed), plan);
}

}  // namespace
}  // namespace autocfg
