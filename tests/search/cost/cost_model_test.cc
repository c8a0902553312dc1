// Predictions of whole plans: which ops, ranks and caches they come from, their parts, and whether the plan
// fits in memory.
#include "search/cost/cost_model.h"

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/cost/kinds_of_layers.h"
#include "search/cost/memory/memory_model.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/cost/timing/program_timer.h"
#include "search/plan/placement.h"
#include "tests/search/cost/random_cases.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::AllOps;
using test::Fp32;
using test::LocalRanks;
using test::ModelOf;
using test::RandomCase;
using test::RandomCases;
using test::RandomRuns;
using test::SmallGpt;
using test::SyntheticDevice;
using ::testing::HasSubstr;

// Simulate() walks one rank of each tensor and data group; all ranks give the same. The trace is of all of
// them.
TEST(CostModel, FewRanksStandForAll) {
  RandomCases cases(17);
  for (int i = 0; i < 60; ++i) {
    const RandomCase c = cases.Next();
    CostModel costs = ModelOf(c);
    const PipelineCosts pipeline = costs.CostsOf(c.plan);
    const Program program = Lower(c);
    const auto full = TraceProgram(program, [&](std::int32_t rank, const Action& a) {
      return SecondsOf(pipeline, 1, rank / (c.plan.tp * c.plan.dp), a);
    });
    ASSERT_TRUE(full.ok()) << full.status();
    EXPECT_NEAR(costs.Predict(c.plan).step_time_s, full->step_time_s, 1e-9 * full->step_time_s);
    const TracedStep trace = costs.Trace(c.plan);
    const double rounding = 1e-12 * full->step_time_s;
    EXPECT_NEAR(trace.step_time_s, full->step_time_s, rounding);
    ASSERT_EQ(trace.rows.size(), full->rows.size());
    for (std::size_t row = 0; row < trace.rows.size(); ++row) {
      ASSERT_EQ(trace.rows[row].rank, full->rows[row].rank);
      ASSERT_EQ(trace.rows[row].action, full->rows[row].action);
      ASSERT_NEAR(trace.rows[row].end_s, full->rows[row].end_s, rounding);
    }
    EXPECT_EQ(trace.rows.back().rank, RankCount(c.plan) - 1);
  }
}

// Returns the seconds of the reductions that the rank's last compute issues.
double ReductionsInComputes(const RandomCase& c, std::int64_t rank) {
  if (ShardsGradients(c.plan)) return 0;
  double seconds = 0;
  const Action last{.kind = SplitsBackward(c.plan) ? ActionKind::kWeightGradient : ActionKind::kBackward,
                    .stage = static_cast<std::int32_t>(rank),
                    .microbatch = static_cast<std::int32_t>(MicrobatchCount(c.workload, c.plan) - 1)};
  for (const OpDesc& op : ActionOps(c, rank, last)) {
    if (op.group == CommGroup::kData || op.group == CommGroup::kShard) seconds += c.device.Seconds(op);
  }
  return seconds;
}

// Each action's cost is the sum of the times of the ops that action_ops lists for it, on a device whose
// collectives run beside no compute.
TEST(CostModel, CostsAreTheSumsOfTheirOps) {
  RandomCases cases(19);
  int delaying = 0, recomputing = 0;  // stages with split backwards
  int kinds = 0;                      // runs whose layers differ
  for (int i = 0; i < 240; ++i) {
    const RandomCase c = cases.Next();
    if (!KindsOfLayers(c.model, c.workload.seq_len).AreAlike()) ++kinds;
    CostModel costs = ModelOf(c);
    const PipelineCosts pipeline = costs.CostsOf(c.plan);
    const auto sum = [&](std::int64_t stage, ActionKind kind, bool tensor_only = false,
                         std::int32_t microbatch = 1) {
      double seconds = 0;
      const Action action{.kind = kind, .stage = static_cast<std::int32_t>(stage), .microbatch = microbatch};
      // Reductions and gathers that run once in a step are not costs of the stage that issues them.
      const bool once = !ShardsGradients(c.plan) && IsStageCompute(kind);
      for (const OpDesc& op : ActionOps(c, PipelineRankOf(c.plan, stage), action)) {
        if (once && (op.group == CommGroup::kData || op.group == CommGroup::kShard)) continue;
        if (!tensor_only || op.group == CommGroup::kTensor || op.group == CommGroup::kShard)
          seconds += c.device.Seconds(op);
      }
      return seconds;
    };
    const auto near = [](double a, double b) { EXPECT_NEAR(a, b, 1e-9 * b); };
    for (std::int64_t stage = 0; stage < StageCount(c.plan); ++stage) {
      const StageCosts& s = pipeline.stages[static_cast<std::size_t>(stage)];
      near(s.forward_s, sum(stage, ActionKind::kForward));
      const bool splits = SplitsBackward(c.plan);
      const ActionKind backward = splits ? ActionKind::kInputGradient : ActionKind::kBackward;
      // The times of a step of one microbatch know no backward that adds to gradients.
      const bool accumulates = MicrobatchCount(c.workload, c.plan) > 1;
      if (accumulates) near(s.backward_s, sum(stage, backward));
      near(s.backward_s - s.first_saves_s, sum(stage, backward, false, 0));
      near(s.tp_forward_s, sum(stage, ActionKind::kForward, true));
      near(s.tp_backward_s + s.tp_recompute_s, sum(stage, backward, true));
      const auto weights = [&](bool tensor_only, std::int32_t microbatch) {
        return splits ? sum(stage, ActionKind::kWeightGradient, tensor_only, microbatch) : 0;
      };
      if (accumulates) near(s.weight_s, weights(false, 1));
      near(s.weight_s - s.weight_first_saves_s, weights(false, 0));
      near(s.tp_weight_s, weights(true, 1));
      if (splits) ++(weights(false, 0) > 0 ? delaying : recomputing);
    }
    for (std::int64_t rank = 0; rank < c.plan.pp; ++rank) {
      const RankCosts& r = pipeline.ranks[static_cast<std::size_t>(rank)];
      near(r.zero_s + r.wait_s, sum(rank, ActionKind::kZeroScalars));
      near(r.norm_s + pipeline.scalars_s, sum(rank, ActionKind::kReduceScalars));
      near(r.update_s, sum(rank, ActionKind::kOptimizer));
      near(r.reduce_s, sum(rank, ActionKind::kReduceGradients) + ReductionsInComputes(c, rank));
      near(r.tied_s, sum(rank, ActionKind::kSumTiedEmbedding));
      near(r.gather_s, sum(rank, ActionKind::kGatherParameters));
    }
    if (c.plan.pp > 1) near(pipeline.p2p_s, sum(1, ActionKind::kRecvActivation));
  }
  EXPECT_GT(delaying, 30);
  EXPECT_GT(recomputing, 5);
  EXPECT_GT(kinds, 50);
}

// One object over many plans gives what a fresh one gives: no cache mixes up two plans, wherever op times
// depend on the plan.
class PlacedTimes final : public OpTimeModel {
 public:
  double Seconds(const OpDesc& op, const ParallelPlan& plan) const override {
    const double seconds = SyntheticDevice().Seconds(op);
    if (op.group == CommGroup::kNone) return seconds;
    if (op.group == CommGroup::kTensor)
      return seconds *
             (1 + 0.1 * static_cast<double>(plan.tp) + 0.001 * static_cast<double>(RankCount(plan)));
    return seconds * (1 + 0.1 * static_cast<double>(plan.tp) + 0.01 * static_cast<double>(plan.pp) +
                      0.001 * static_cast<double>(plan.dp));
  }
};

TEST(CostModel, CachesKnowWhatTimesDependOn) {
  const auto times = std::make_shared<const PlacedTimes>();
  RandomRuns random(37);
  ModelSpec model = random.Model(4);
  model.layer_kinds = {{.layers = 2, .window = 8}, {.layers = 1}};
  test::SetLayers(model, 24);
  model.max_seq_len = 32;
  const Workload workload = Fp32(48, 32);
  CostModel warm({model, workload, LocalRanks(1024)}, times);
  int compared = 0;
  for (int i = 0; i < 4000; ++i) {
    ParallelPlan plan = RandomRuns(static_cast<std::uint64_t>(1000 + i)).Next().plan;
    if (FindIllegality({model, workload, plan}, 1024)) continue;
    CostModel fresh({model, workload, LocalRanks(1024)}, times);
    const Prediction a = warm.Estimate(plan), b = fresh.Estimate(plan);
    ASSERT_EQ(a.step_time_s, b.step_time_s) << i;
    ASSERT_EQ(a.breakdown.recompute, b.breakdown.recompute) << i;
    ++compared;
  }
  EXPECT_GT(compared, 400);
}

TEST(CostModel, BreakdownAddsUp) {
  RandomCases cases(23);
  for (int i = 0; i < 100; ++i) {
    const RandomCase c = cases.Next();
    CostModel costs = ModelOf(c, i % 2 == 0 ? 1 : 2);
    for (const Prediction& p : {costs.Estimate(c.plan), costs.Predict(c.plan)}) {
      EXPECT_NEAR(p.breakdown.Total(), p.step_time_s, 1e-9 * p.step_time_s);
      for (const BreakdownPart& part : kBreakdownParts) EXPECT_GE(p.breakdown.*part.seconds, 0) << part.name;
      if (c.plan.pp == 1) {
        EXPECT_EQ(p.breakdown.bubble, 0) << "no rank waits for another";
      }
      EXPECT_GT(p.breakdown.compute, 0);
      EXPECT_EQ(p.breakdown.recompute > 0, c.plan.recompute != Recompute::kNone);
      EXPECT_EQ(p.breakdown.tp_comm > 0, c.plan.tp > 1);
      EXPECT_EQ(p.breakdown.pp_comm > 0, c.plan.pp > 1 && !c.plan.p2p_overlap) << "else part of the bubble";
      if (c.plan.dp == 1 && (c.plan.pp == 1 || !c.model.tied_embeddings) &&
          KvReplicas(c.model, c.plan) == 1) {
        EXPECT_EQ(p.breakdown.dp_comm, 0);
      }
      EXPECT_EQ(p.step_time_low_s, p.step_time_s);
      EXPECT_EQ(p.step_time_high_s, p.step_time_s);
    }
  }
}

TEST(CostModel, SaysWhatDoesNotFit) {
  const ModelSpec model = SmallGpt(8, 256, 8, 8192);
  const Workload workload = Fp32(64, 64);
  ParallelPlan plan;
  plan.pp = 2;
  plan.schedule = Schedule::kGPipe;
  const std::int64_t needs = WorstRankMemory({model, workload, plan}).Total();
  const OpTimes times = SyntheticDevice().Measure(AllOps(model, workload, plan));

  CostModel fits({model, workload, LocalRanks(2, 1, needs + 100)}, times, 100);
  EXPECT_TRUE(fits.Estimate(plan).feasible);
  EXPECT_EQ(fits.Estimate(plan).memory.Total(), needs + 100);
  EXPECT_EQ(fits.Estimate(plan).reason, "");

  CostModel short_of({model, workload, LocalRanks(2, 1, needs - 1)}, times);
  const Prediction p = short_of.Estimate(plan);
  EXPECT_FALSE(p.feasible);
  EXPECT_EQ(p.capacity_bytes, needs - 1);
  EXPECT_THAT(p.reason, HasSubstr("needs 1 B more than"));
  EXPECT_THAT(p.reason, HasSubstr("activations are the largest region"));
  EXPECT_GT(p.step_time_s, 0) << "a plan that does not fit is still timed";
}

}  // namespace
}  // namespace autocfg
