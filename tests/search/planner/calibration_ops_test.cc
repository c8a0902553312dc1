#include "search/planner/calibration_ops.h"

#include <algorithm>
#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "search/cost/op_lists/rank_ops.h"
#include "search/plan/legality.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::AllOps;
using test::Fp32;
using test::SmallGpt;

std::vector<ParallelPlan> Plans(const ModelSpec& model, const Workload& workload, std::int64_t ranks) {
  std::vector<ParallelPlan> plans;
  for (std::int64_t tp = 1; tp <= ranks; tp *= 2) {
    for (std::int64_t pp = 1; tp * pp <= ranks; pp *= 2) {
      for (std::int64_t mbs : {1, 2, 4}) {
        for (const auto& [recompute, attention] : {std::pair{Recompute::kNone, Attention::kFused},
                                                   {Recompute::kFull, Attention::kFused},
                                                   {Recompute::kSelective, Attention::kUnfused}}) {
          ParallelPlan plan;
          plan.attention = attention;
          plan.tp = tp;
          plan.pp = pp;
          plan.dp = ranks / tp / pp;
          plan.micro_batch = mbs;
          plan.recompute = recompute;
          if (!FindIllegality({model, workload, plan}, ranks)) plans.push_back(plan);
          if (pp == 1) continue;
          plan.schedule = Schedule::kZeroBubbleH1;
          if (recompute == Recompute::kFull) plan.recompute_layers = 1;
          if (!FindIllegality({model, workload, plan}, ranks)) plans.push_back(plan);
        }
      }
    }
  }
  return plans;
}

TEST(CalibrationOps, AreTheDistinctOpsOfAllPrograms) {
  const ModelSpec model = SmallGpt(8);
  const Workload workload = Fp32(16, 32);
  const auto plans = Plans(model, workload, 4);
  ASSERT_GT(plans.size(), 20u);
  std::set<OpDesc> expected;
  for (const ParallelPlan& plan : plans) {
    for (const OpDesc& op : AllOps(model, workload, plan)) {
      if (op.kind == OpKind::kSumOfSquares) continue;
      if (plan.pp > 1 || (op.kind != OpKind::kSend && op.kind != OpKind::kRecv)) expected.insert(op);
    }
    // The op of tensor coordinate 0, which predictions use.
    for (std::int64_t rank = 0; rank < plan.pp; ++rank)
      expected.insert(GradientNormOp({model, workload, plan}, rank));
  }
  const auto ops = ListCalibrationOps(model, workload, plans, 100000);
  EXPECT_EQ(std::set<OpDesc>(ops.begin(), ops.end()), expected);
  EXPECT_EQ(ops.size(), expected.size());
  EXPECT_EQ(ops, ListCalibrationOps(model, workload, plans, 100000));
}

// An op's share of the step for the time that it takes to measure it is the number of times that a step runs
// it: those of layers come before those of a microbatch, and these before those of the step.
TEST(CalibrationOps, ComeInTheOrderOfTheirUse) {
  const ModelSpec model = SmallGpt(8, 512, 8);
  const auto ops = ListCalibrationOps(model, Fp32(16, 32), {{{.dp = 1}, {.micro_batch = 2}, {}}});
  const auto place = [&](OpKind kind) {
    const auto found =
        std::find_if(ops.begin(), ops.end(), [&](const OpDesc& op) { return op.kind == kind; });
    EXPECT_NE(found, ops.end()) << Name(kind);
    return found - ops.begin();
  };
  EXPECT_LT(place(OpKind::kAttentionBackward), place(OpKind::kCrossEntropy));
  EXPECT_LT(place(OpKind::kLayerNormForward), place(OpKind::kCrossEntropy));
  EXPECT_LT(place(OpKind::kMatmul), place(OpKind::kCrossEntropy));
  EXPECT_LT(place(OpKind::kCrossEntropy), place(OpKind::kAdamW));
}

TEST(CalibrationOps, BoundedWithEveryFamilyKept) {
  const ModelSpec model = SmallGpt(16, 256, 16);
  const Workload workload = Fp32(256, 32);
  const auto plans = Plans(model, workload, 64);
  const auto all = ListCalibrationOps(model, workload, plans, 100000);
  const auto few = ListCalibrationOps(model, workload, plans);
  EXPECT_GT(all.size(), kMostCalibrationOps);
  EXPECT_EQ(few.size(), kMostCalibrationOps);
  const auto families = [](const std::vector<OpDesc>& ops) {
    std::set<std::tuple<OpKind, Epilogue, CommGroup, std::int32_t>> set;
    for (const OpDesc& op : ops) set.insert({op.kind, op.epilogue, op.group, op.group_size});
    return set;
  };
  EXPECT_EQ(families(few), families(all));
}

TEST(CalibrationOps, NoPlansNoOps) { EXPECT_TRUE(ListCalibrationOps(SmallGpt(), Fp32(8, 32), {}).empty()); }

}  // namespace
}  // namespace autocfg
