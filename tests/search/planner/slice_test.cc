#include "search/planner/slice.h"

#include "gtest/gtest.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/plan/plan_text.h"
#include "search/schedule/program.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::SmallGpt;

// Nominal op times; every message takes the same given time.
class TimesWithMessages final : public OpTimeModel {
 public:
  explicit TimesWithMessages(double message_s) : message_s_(message_s) {}
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    return IsCommunication(op.kind) ? message_s_ : NominalTimes().Seconds(op);
  }

 private:
  double message_s_;
};

CostModel Costs(const ModelSpec& model, double message_s) {
  return CostModel({model, Fp32(16, 32), LocalRanks(16)},
                   std::make_shared<const TimesWithMessages>(message_s));
}

// Without a pipeline and with free messages, a slice equals the whole step.
TEST(Slice, EqualsTheStepWithoutMessagesAndBubbles) {
  const ModelSpec model = SmallGpt();
  for (const char* text : {"tp=1,pp=1,dp=1,mbs=2", "tp=4,pp=1,dp=2,mbs=1,recompute=full",
                           "tp=2,pp=1,dp=8,mbs=1,recompute=full:3"}) {
    const ParallelPlan plan = *ParsePlanText(text);
    CostModel free = Costs(model, 0), dear = Costs(model, 1e-3);
    EXPECT_NEAR(SliceSeconds(free, plan, 0), free.Estimate(plan).step_time_s, 1e-12) << text;
    EXPECT_DOUBLE_EQ(SliceSeconds(dear, plan, 0), SliceSeconds(free, plan, 0)) << "messages do not count";
    EXPECT_EQ(ChooseSlice(dear, plan), SliceCoordinates());
  }
}

// Sums the rank's own op lists, one by one.
TEST(Slice, SumsTheRanksOwnOps) {
  const ModelSpec model = SmallGpt(8);
  for (const char* text : {"tp=2,pp=2,dp=2,mbs=1", "tp=1,pp=4,dp=1,mbs=2,split=1+3+2+2,recompute=full:2",
                           "tp=1,pp=2,dp=2,mbs=1,vpp=2,recompute=full:1"}) {
    const ParallelPlan plan = *ParsePlanText(text);
    CostModel costs = Costs(model, 1e-4);
    const Program program = Lower({model, Fp32(16, 32), plan});
    for (std::int64_t rank = 0; rank < plan.pp; ++rank) {
      double all = 0;
      for (const Action& action : program.ranks[static_cast<std::size_t>(rank * plan.tp * plan.dp)]) {
        for (const OpDesc& op : ActionOps({model, Fp32(16, 32), plan}, rank, action)) {
          if (!IsCommunication(op.kind)) all += NominalTimes().Seconds(op);
        }
      }
      EXPECT_NEAR(SliceSeconds(costs, plan, rank), all, 1e-9 * all) << text;
      EXPECT_LT(SliceSeconds(costs, plan, rank), costs.Predict(plan).step_time_s) << text;
    }
  }
}

TEST(Slice, ChoosesTheRankThatComputesLongest) {
  CostModel large_head = Costs(SmallGpt(8, 128, 8, 50000), 1e-4);
  EXPECT_EQ(ChooseSlice(large_head, *ParsePlanText("tp=1,pp=4,dp=1,mbs=1")).pipeline, 3);
  CostModel costs = Costs(SmallGpt(8, 128, 8, 128), 1e-4);
  EXPECT_EQ(ChooseSlice(costs, *ParsePlanText("tp=1,pp=4,dp=1,mbs=1,split=1+4+2+1")).pipeline, 1);
  EXPECT_EQ(ChooseSlice(costs, *ParsePlanText("tp=1,pp=2,dp=1,mbs=1,vpp=2,split=1+1+5+1")).pipeline, 0);
  EXPECT_EQ(ChooseSlice(costs, *ParsePlanText("tp=1,pp=2,dp=1,mbs=1,vpp=2,split=1+1+5+1")).tensor, 0);
}

}  // namespace
}  // namespace autocfg
