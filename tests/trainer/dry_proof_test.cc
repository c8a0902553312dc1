// Tests design decisions 2 and 3, for every pair of choices and at random, with models of mixed parts and
// plans of any kind. The trainer reserves exactly the bytes that the memory model counts, and on the dry
// device it issues exactly the ops that action_ops lists.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "search/cost/memory/memory_model.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/cost/op_lists/rank_ops.h"
#include "search/plan/plan_text.h"
#include "search/schedule/action_kinds.h"
#include "tests/search/cost/random_runs.h"
#include "tests/support/covering_array.h"
#include "tests/support/plan_values.h"
#include "trainer/run/rank_trainer.h"

namespace autocfg::trainer {
namespace {

using test::RandomRun;
using test::RandomRuns;

TrainConfig ConfigOf(const RandomRun& run) {
  TrainConfig c;
  c.model = run.model;
  c.workload = run.workload;
  c.plan = run.plan;
  c.seed = 7;
  return c;
}

// Whether no layer is of the kind, some are, or all are.
int HasKind(const ModelSpec& model, bool (*is)(const LayerRun& kind)) {
  const std::vector<LayerRun> runs = RunsOf(model);
  return (std::ranges::any_of(runs, is) ? 1 : 0) + (std::ranges::all_of(runs, is) ? 1 : 0);
}

// Returns the choices of a run: by axis, the index of its value.
test::Case ChoicesOf(const RandomRun& run) {
  const ParallelPlan& p = run.plan;
  const ModelSpec& m = run.model;
  const int recompute = static_cast<int>(p.recompute) + (p.recompute_layers > 0 ? 1 : 0);
  const int precision = static_cast<int>(SizeOf(run.workload.precision.parameters));
  std::vector<std::int64_t> choices = {p.tp, p.pp, p.dp, p.micro_batch, p.virtual_stages};
  for (const int choice : {static_cast<int>(p.schedule),
                           static_cast<int>(p.split),
                           recompute,
                           static_cast<int>(p.attention),
                           precision,
                           static_cast<int>(m.norm),
                           static_cast<int>(m.position),
                           static_cast<int>(m.activation),
                           m.qkv_bias ? 1 : 0,
                           m.attention_out_bias ? 1 : 0,
                           m.mlp_bias ? 1 : 0,
                           m.tied_embeddings ? 1 : 0,
                           m.kv_heads < p.tp      ? 2
                           : m.kv_heads < m.heads ? 1
                                                  : 0,
                           static_cast<int>(m.qk_norm),
                           m.residual_scale != 1 ? 1 : 0,
                           static_cast<int>(m.norm_placement),
                           HasKind(m, [](const LayerRun& kind) { return !kind.rotary; }),
                           HasKind(m, [](const LayerRun& kind) { return kind.window > 0; }),
                           HasKind(m, [](const LayerRun& kind) { return kind.chunk > 0; }),
                           m.attention_softcap > 0 ? 1 : 0,
                           m.output_softcap > 0 ? 1 : 0,
                           m.parallel_residual ? 1 : 0,
                           RecomputesPart(p, LayerPart::kMlp) ? 1 : 0,
                           RecomputesPart(p, LayerPart::kActivation) ? 1 : 0,
                           RecomputesPart(p, LayerPart::kNorm) ? 1 : 0,
                           p.sequence_parallel ? 1 : 0,
                           p.scatter_gather ? 1 : 0,
                           p.p2p_overlap ? 1 : 0,
                           static_cast<int>(p.zero_stage),
                           p.dp_shard > 0 ? 1 : 0,
                           static_cast<int>(p.tp_overlap),
                           p.grad_overlap ? 1 : 0,
                           p.param_overlap ? 1 : 0}) {
    choices.push_back(choice);
  }
  return {choices.begin(), choices.end()};
}

// Picks the first, middle and last rank of the pipeline, with random coordinates otherwise.
std::set<std::int64_t> SomeRanks(RandomRuns& random, const ParallelPlan& plan) {
  std::set<std::int64_t> ranks;
  const std::int64_t per_stage = plan.tp * plan.dp;
  for (const std::int64_t stage : {std::int64_t{0}, plan.pp / 2, plan.pp - 1}) {
    ranks.insert(stage * per_stage + random.Between(0, per_stage - 1));
    ranks.insert(stage * per_stage);
  }
  return ranks;
}

std::vector<OpDesc> ExpectedOps(const TrainConfig& c, const RankTrainer& trainer) {
  std::vector<OpDesc> ops;
  for (const Action& action : trainer.program()) {
    const RankShape& s = trainer.shape();
    if (IsMicrobatch(action.kind)) {
      const auto listed = ActionOps(c, s.pipeline, action);
      ops.insert(ops.end(), listed.begin(), listed.end());
      continue;
    }
    for (const RepeatedOp& repeated : RankOps(c, s.pipeline, action.kind, {s.tensor, s.data}))
      ops.insert(ops.end(), static_cast<std::size_t>(repeated.times), repeated.op);
  }
  return ops;
}

// Describes the first difference between the lists; empty if they are equal.
std::string Difference(const std::vector<OpDesc>& listed, const std::vector<OpDesc>& issued) {
  for (std::size_t i = 0; i < std::max(listed.size(), issued.size()); ++i) {
    const std::string a = i < listed.size() ? ToString(listed[i]) : "nothing";
    const std::string b = i < issued.size() ? ToString(issued[i]) : "nothing";
    if (i >= listed.size() || i >= issued.size() || listed[i] != issued[i]) {
      return fmt::format("op {}: listed {}, issued {}", i, a, b);
    }
  }
  return "";
}

// Checks the regions that a rank has reserved, to the byte.
void ExpectBytesAsPredicted(const TrainConfig& c, const RankTrainer& trainer) {
  const Arena& arena = trainer.arena();
  const MemoryBytes reserved{.parameters = arena.ReservedBytes(Region::kParameters),
                             .gradients = arena.ReservedBytes(Region::kGradients),
                             .optimizer = arena.ReservedBytes(Region::kOptimizer),
                             .activations = arena.ReservedBytes(Region::kActivations),
                             .workspace = arena.ReservedBytes(Region::kWorkspace),
                             .communication = arena.ReservedBytes(Region::kCommunication)};
  const MemoryBytes predicted = RankMemory(c, trainer.shape().pipeline);
  ASSERT_EQ(predicted.parameters, reserved.parameters);
  ASSERT_EQ(predicted.gradients, reserved.gradients);
  ASSERT_EQ(predicted.optimizer, reserved.optimizer);
  ASSERT_EQ(predicted.activations, reserved.activations);
  ASSERT_EQ(predicted.workspace, reserved.workspace);
  ASSERT_EQ(predicted.communication, reserved.communication);
  ASSERT_EQ(predicted.Arena(), arena.TotalBytes());
}

// Checks one rank of a run: its regions to the byte, and the ops of a step exactly. Adds their kinds to
// `kinds`.
void ExpectAsPredicted(const TrainConfig& c, std::int64_t rank, std::set<OpKind>& kinds) {
  const std::int64_t world = RankCount(c.plan);
  Backend backend = CreateDryBackend(static_cast<int>(rank), static_cast<int>(world));
  RankTrainer trainer(c, rank, world, backend);
  ExpectBytesAsPredicted(c, trainer);
  if (::testing::Test::HasFatalFailure()) return;

  trainer.Step();
  ASSERT_EQ(Difference(ExpectedOps(c, trainer), backend.log->ops()), "");
  ASSERT_EQ(trainer.PeakBytes(), trainer.arena().TotalBytes()) << "unused slots";
  for (const OpDesc& op : backend.log->ops()) kinds.insert(op.kind);
}

std::string Describe(const TrainConfig& c) {
  return fmt::format("{} {} layers={} hidden={} heads={}/{}x{} ffn={} {} {} {} bias={}{}{} tied={}",
                     PlanText(c.plan), PrecisionText(c.workload.precision), c.model.layers, c.model.hidden,
                     c.model.heads, c.model.kv_heads, c.model.head_dim, c.model.ffn_hidden,
                     Name(c.model.activation), Name(c.model.norm), Name(c.model.position), c.model.qkv_bias,
                     c.model.attention_out_bias, c.model.mlp_bias, c.model.tied_embeddings);
}

// Runs 500 random runs. Of 20,000 more, it also runs each one with a pair of choices that no earlier run had:
// every pair of sizes, schedules, splits, recomputation, attention, precisions and parts of models. Together
// the runs issue every kind of op that the engine has.
TEST(DryProof, PredictsBytesAndOpsForEveryPairOfChoicesAndAtRandom) {
  RandomRuns random(20240607, {.tp = {1, 2, 4, 8},
                               .dp = {1, 2, 3, 4},
                               .layers_per_stage = 3,
                               .microbatches = 12,
                               .predicted_only = false});
  std::set<test::ChoicePair> pairs;
  std::set<OpKind> kinds;
  std::set<std::pair<Recompute, std::int64_t>> split;  // what plans with split backwards recompute
  int runs = 0, ranks = 0;
  for (int i = 0; i < 20500; ++i) {
    const RandomRun run = random.Next();
    const std::size_t before = pairs.size();
    pairs.merge(test::PairsOf(ChoicesOf(run)));
    if (i >= 500 && pairs.size() == before) continue;
    const TrainConfig c = ConfigOf(run);
    ++runs;
    if (SplitsBackward(c.plan)) split.emplace(c.plan.recompute, c.plan.recompute_layers);
    for (const std::int64_t rank : SomeRanks(random, c.plan)) {
      SCOPED_TRACE(fmt::format("run {}, rank {}: {}", i, rank, Describe(c)));
      ExpectAsPredicted(c, rank, kinds);
      if (HasFatalFailure()) return;
      ++ranks;
    }
  }
  EXPECT_GE(runs, 500);
  EXPECT_GT(ranks, 1500);
  EXPECT_GE(split.size(), kRecomputeCount + 2) << "none, selective, full, and full:K of several K";
  // 20 axes of 2 to 5 values. The excluded pairs are pp = 1 with several stages, splits and schedules, and
  // some of the latter with several stages.
  EXPECT_GT(pairs.size(), 800u);
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    EXPECT_TRUE(kinds.contains(kind)) << Name(kind) << ": no run issues it";
  }
}

// The bytes alone, of 2,000 random plans: other ones than above. They take every value that the engine runs.
TEST(DryProof, PredictsBytesOfTwoThousandPlans) {
  RandomRuns random(20240608, {.tp = {1, 2, 4, 8},
                               .dp = {1, 2, 3, 4},
                               .layers_per_stage = 3,
                               .microbatches = 8,
                               .predicted_only = false});
  std::vector<ParallelPlan> plans;
  for (int i = 0; i < 2000; ++i) {
    const TrainConfig c = ConfigOf(random.Next());
    plans.push_back(c.plan);
    const std::int64_t world = RankCount(c.plan);
    for (const std::int64_t rank : SomeRanks(random, c.plan)) {
      SCOPED_TRACE(fmt::format("run {}, rank {}: {}", i, rank, Describe(c)));
      Backend backend = CreateDryBackend(static_cast<int>(rank), static_cast<int>(world));
      ExpectBytesAsPredicted(c, RankTrainer(c, rank, world, backend));
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_THAT(test::ValuesThatNoneTakes(plans), ::testing::IsEmpty());
}

// Sums of squares: over all ranks, every parameter element is counted exactly once.
TEST(DryProof, EveryParameterCountsOnceInTheNorm) {
  RandomRuns random(5, {.tp = {1, 2, 4},
                        .pp = {1, 2, 3},
                        .dp = {1, 2},
                        .layers_per_stage = 2,
                        .microbatches = 3,
                        .predicted_only = false});
  for (int i = 0; i < 30; ++i) {
    TrainConfig c = ConfigOf(random.Next());
    c.model.vocab = 8 * c.plan.tp * random.Between(1, 4);  // no padding, so that elements add up
    c.model.vocab_multiple = 8;
    SCOPED_TRACE(Describe(c));
    const auto world = static_cast<int>(RankCount(c.plan));
    std::int64_t counted = 0;
    for (int rank = 0; rank < world; ++rank) {
      Backend backend = CreateDryBackend(rank, world);
      RankTrainer trainer(c, rank, world, backend);
      trainer.Step();
      for (const OpDesc& op : backend.log->ops()) {
        if (op.kind == OpKind::kSumOfSquares) counted += op.dims[0];
      }
    }
    EXPECT_EQ(counted, ParameterCount(c.model));
  }
}

}  // namespace
}  // namespace autocfg::trainer
