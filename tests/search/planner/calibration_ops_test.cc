#include "search/planner/calibration_ops.h"

#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "search/cost/rank_ops.h"
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
          if (!FindIllegality(model, workload, ranks, plan)) plans.push_back(plan);
          if (pp == 1) continue;
          plan.schedule = Schedule::kZeroBubbleH1;
          if (recompute == Recompute::kFull) plan.recompute_layers = 1;
          if (!FindIllegality(model, workload, ranks, plan)) plans.push_back(plan);
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
      expected.insert(ParameterOp(model, workload, plan, rank, OpKind::kSumOfSquares));
  }
  const auto ops = ListCalibrationOps(model, workload, plans, 100000);
  EXPECT_EQ(std::set<OpDesc>(ops.begin(), ops.end()), expected);
  EXPECT_EQ(ops.size(), expected.size());
  EXPECT_EQ(ops, ListCalibrationOps(model, workload, plans, 100000));
  // The most expensive ops come first; the two scalar ops come late.
  EXPECT_TRUE(ops.front().kind == OpKind::kMatmul || ops.front().kind == OpKind::kAllReduceSum)
      << ToString(ops.front());
  for (std::size_t i = 0; i < 5; ++i) EXPECT_GT(MinBytes(ops[i]), 10000) << ToString(ops[i]);
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
