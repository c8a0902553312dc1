// The contract of OpTimeModel, as tests that every implementation runs. Include in one file of a test program
// and instantiate with OpTimeModelCaseName.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "search/cost/op_times/op_time_model.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/rank_mesh.h"

namespace autocfg {

struct OpTimeModelCase {
  std::string name;
  std::function<std::shared_ptr<const OpTimeModel>()> make;
};

inline std::string OpTimeModelCaseName(const testing::TestParamInfo<OpTimeModelCase>& info) {
  return info.param.name;
}

class OpTimeModelSuite : public testing::TestWithParam<OpTimeModelCase> {
 protected:
  static ParallelPlan RandomPlan(std::mt19937_64& random) {
    return {{.tp = std::int64_t{1} << random() % 5,
             .pp = std::int64_t{1} << random() % 4,
             .dp = 1 + static_cast<std::int64_t>(random() % 8)}};
  }

  // Returns an op of any kind that a rank of the plan may issue.
  static OpDesc RandomOp(const ParallelPlan& plan, std::mt19937_64& random) {
    OpDesc op;
    op.kind = static_cast<OpKind>(random() % kOpKindCount);
    op.dtype = op.kind == OpKind::kAdamW ? DType::kF32 : DType::kBF16;
    if (op.kind == OpKind::kMatmul) SetEpilogue(op, static_cast<Epilogue>(random() % kEpilogueCount));
    if (HasActivation(op)) op.activation = static_cast<Activation>(random() % kActivationCount);
    for (int i = 0; i < DimCount(op.kind); ++i)
      op.dims[static_cast<std::size_t>(i)] = std::int64_t{1} << random() % 14;
    if (!IsCommunication(op.kind)) return op;
    const std::map<CommGroup, std::int64_t> sizes = {{CommGroup::kTensor, plan.tp},
                                                     {CommGroup::kData, plan.dp},
                                                     {CommGroup::kPipeline, plan.pp},
                                                     {CommGroup::kEmbedding, plan.pp > 1 ? 2 : 1},
                                                     {CommGroup::kWorld, RankCount(plan)}};
    op.group = static_cast<CommGroup>(1 + random() % 5);
    op.group_size = static_cast<std::int32_t>(sizes.at(op.group));
    return op;
  }

  static bool IsAlone(const OpDesc& op) { return IsCommunication(op.kind) && op.group_size == 1; }
};

TEST_P(OpTimeModelSuite, TimesAreFiniteAndPositive) {
  const auto times = GetParam().make();
  std::mt19937_64 random(11);
  for (int i = 0; i < 1000; ++i) {
    const ParallelPlan plan = RandomPlan(random);
    const OpDesc op = RandomOp(plan, random);
    const double seconds = times->Seconds(op, plan);
    EXPECT_EQ(times->Seconds(op, plan), seconds) << "the same op takes the same time";
    ASSERT_TRUE(std::isfinite(seconds)) << ToString(op);
    if (IsAlone(op)) {
      EXPECT_GE(seconds, 0) << ToString(op);
    } else {
      ASSERT_GT(seconds, 0) << ToString(op);
    }
  }
}

TEST_P(OpTimeModelSuite, ALargerOpNeverTakesLess) {
  const auto times = GetParam().make();
  std::mt19937_64 random(12);
  int longer = 0;
  for (int i = 0; i < 1000; ++i) {
    const ParallelPlan plan = RandomPlan(random);
    const OpDesc op = RandomOp(plan, random);
    if (IsAlone(op)) continue;
    OpDesc larger = op;
    const auto dim = static_cast<std::size_t>(random() % static_cast<std::uint64_t>(DimCount(op.kind)));
    larger.dims[dim] += 1 + static_cast<std::int64_t>(random() % 300);
    const double before = times->Seconds(op, plan), after = times->Seconds(larger, plan);
    EXPECT_GE(after, before * (1 - 1e-12)) << ToString(op) << " against " << ToString(larger);
    longer += after > before;
  }
  EXPECT_GT(longer, 400) << "most take longer";
}

// The placement of ranks does not affect ops that communicate nothing.
TEST_P(OpTimeModelSuite, ComputeTimeDoesNotDependOnThePlan) {
  const auto times = GetParam().make();
  std::mt19937_64 random(13);
  for (int i = 0; i < 300; ++i) {
    const ParallelPlan plan = RandomPlan(random);
    const OpDesc op = RandomOp(plan, random);
    if (IsCommunication(op.kind)) continue;
    EXPECT_EQ(times->Seconds(op, plan), times->Seconds(op, RandomPlan(random))) << ToString(op);
  }
}

// All ranks are blocks of consecutive ones, one for each tensor group.
TEST_P(OpTimeModelSuite, TensorTimeDependsOnTensorGroupsAlone) {
  const auto times = GetParam().make();
  std::mt19937_64 random(14);
  for (int i = 0; i < 1000; ++i) {
    const ParallelPlan plan = RandomPlan(random);
    const OpDesc op = RandomOp(plan, random);
    if (op.group != CommGroup::kTensor) continue;
    const ParallelPlan other{{.tp = plan.tp, .pp = plan.dp, .dp = plan.pp}};
    EXPECT_EQ(times->Seconds(op, plan), times->Seconds(op, other)) << ToString(op);
  }
}

}  // namespace autocfg
