// Decisions 2 and 3 of the design: over 500 random plans, what the trainer reserves is what the memory model
// counts, to the byte, and what it issues on the dry device is what layer_ops lists, to the op.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "search/cost/layer_ops.h"
#include "search/cost/memory_model.h"
#include "trainer/run/rank_trainer.h"

namespace autocfg {
namespace {

std::int64_t Pick(std::mt19937_64& random, const std::vector<std::int64_t>& values) {
  return values[random() % values.size()];
}

// A legal run: sizes from tiny (odd, so that rounding shows) to far beyond any machine.
TrainConfig RandomConfig(std::mt19937_64& random) {
  TrainConfig c;
  c.plan.tp = Pick(random, {1, 2, 4, 8});
  c.plan.pp = Pick(random, {1, 2, 3, 4, 8});
  c.plan.dp = Pick(random, {1, 2, 3, 4});
  c.plan.micro_batch = Pick(random, {1, 2, 3, 4});
  c.plan.schedule = random() % 2 ? Schedule::kGPipe : Schedule::kOneFOneB;
  c.plan.recompute = random() % 2 ? Recompute::kFull : Recompute::kNone;
  c.model.layers = c.plan.pp * Pick(random, {1, 2, 3});
  c.model.heads = c.plan.tp * Pick(random, {1, 2, 3});
  c.model.head_dim = Pick(random, {1, 3, 16, 64, 128});
  c.model.hidden = random() % 2 ? c.model.heads * c.model.head_dim : Pick(random, {5, 96, 1024, 12288});
  c.model.ffn_hidden = c.plan.tp * Pick(random, {1, 7, 64, 4096});
  c.model.vocab = Pick(random, {2, 61, 1000, 50257});
  c.model.vocab_multiple = Pick(random, {1, 8, 128});
  c.workload.seq_len = Pick(random, {1, 5, 16, 129, 2048});
  c.model.max_seq_len = c.workload.seq_len + Pick(random, {0, 3});
  FillDefaults(c.model);
  c.workload.global_batch = c.plan.dp * c.plan.micro_batch * Pick(random, {1, 2, 3, 5, 8});
  c.workload.precision = *ParsePrecision(random() % 2 ? "fp32" : "fp64");
  c.seed = random();
  return c;
}

// First, middle and last stage, at random other coordinates.
std::set<std::int64_t> SomeRanks(std::mt19937_64& random, const ParallelPlan& plan) {
  std::set<std::int64_t> ranks;
  const std::int64_t per_stage = plan.tp * plan.dp;
  for (const std::int64_t stage : {std::int64_t{0}, plan.pp / 2, plan.pp - 1}) {
    ranks.insert(stage * per_stage +
                 static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(per_stage)));
    ranks.insert(stage * per_stage);
  }
  return ranks;
}

std::vector<OpDesc> ExpectedOps(const TrainConfig& c, const RankTrainer& trainer) {
  std::vector<OpDesc> ops;
  for (const Action& action : trainer.program()) {
    for (const OpDesc& op : ActionOps(c.model, c.workload, c.plan, trainer.shape().pipeline, action)) {
      // The lists are those of tensor and data coordinate 0; sums of squares are what a rank counts.
      if (op.kind == OpKind::kSumOfSquares && (trainer.shape().data != 0 || trainer.shape().tensor != 0))
        continue;
      ops.push_back(op);
    }
  }
  return ops;
}

std::vector<OpDesc> IssuedOps(const RankTrainer& trainer, const OpLog& log) {
  std::vector<OpDesc> ops = log.ops();
  if (trainer.shape().data == 0 && trainer.shape().tensor == 0) return ops;
  std::erase_if(ops, [](const OpDesc& op) { return op.kind == OpKind::kSumOfSquares; });
  return ops;
}

// The first place where the lists differ; empty where they are equal.
std::string Difference(const std::vector<OpDesc>& listed, const std::vector<OpDesc>& issued) {
  for (std::size_t i = 0; i < std::max(listed.size(), issued.size()); ++i) {
    const std::string a = i < listed.size() ? ToString(listed[i]) : "nothing";
    const std::string b = i < issued.size() ? ToString(issued[i]) : "nothing";
    if (i >= listed.size() || i >= issued.size() || listed[i] != issued[i]) {
      return "op " + std::to_string(i) + ": listed " + a + ", issued " + b;
    }
  }
  return "";
}

TEST(DryProof, BytesAndOpsOfRandomPlansAreThePredictedOnes) {
  std::mt19937_64 random(20240607);
  std::int64_t ranks_checked = 0;
  std::set<std::pair<std::int64_t, std::int64_t>> seen_tp_pp;
  for (int i = 0; i < 500; ++i) {
    const TrainConfig c = RandomConfig(random);
    SCOPED_TRACE(testing::Message() << "plan " << i << ": tp=" << c.plan.tp << " pp=" << c.plan.pp
                                    << " dp=" << c.plan.dp << " mbs=" << c.plan.micro_batch
                                    << " layers=" << c.model.layers << " hidden=" << c.model.hidden
                                    << " heads=" << c.model.heads);
    seen_tp_pp.insert({c.plan.tp, c.plan.pp});
    const std::int64_t world = RankCount(c.plan);
    for (const std::int64_t rank : SomeRanks(random, c.plan)) {
      Backend backend = CreateDryBackend(static_cast<int>(rank), static_cast<int>(world));
      RankTrainer trainer(c, rank, world, backend);
      const Arena& arena = trainer.arena();
      const MemoryBytes reserved{.parameters = arena.ReservedBytes(Region::kParameters),
                                 .gradients = arena.ReservedBytes(Region::kGradients),
                                 .optimizer = arena.ReservedBytes(Region::kOptimizer),
                                 .activations = arena.ReservedBytes(Region::kActivations),
                                 .workspace = arena.ReservedBytes(Region::kWorkspace),
                                 .communication = arena.ReservedBytes(Region::kCommunication)};
      const MemoryBytes predicted = RankMemory(c.model, c.workload, c.plan, trainer.shape().pipeline);
      ASSERT_EQ(predicted.parameters, reserved.parameters) << "rank " << rank;
      ASSERT_EQ(predicted.gradients, reserved.gradients) << "rank " << rank;
      ASSERT_EQ(predicted.optimizer, reserved.optimizer) << "rank " << rank;
      ASSERT_EQ(predicted.activations, reserved.activations) << "rank " << rank;
      ASSERT_EQ(predicted.workspace, reserved.workspace) << "rank " << rank;
      ASSERT_EQ(predicted.communication, reserved.communication) << "rank " << rank;
      ASSERT_EQ(predicted.Arena(), arena.TotalBytes()) << "rank " << rank;

      trainer.Step();
      ASSERT_EQ(Difference(ExpectedOps(c, trainer), IssuedOps(trainer, *backend.log)), "") << "rank " << rank;
      ASSERT_EQ(trainer.PeakBytes(), arena.TotalBytes()) << "rank " << rank << " has slots that nothing uses";
      ++ranks_checked;
    }
  }
  EXPECT_GT(ranks_checked, 1000);
  EXPECT_EQ(seen_tp_pp.size(), 20u) << "the random plans do not cover every tp and pp";
}

// Sums of squares: over a tensor and data group, every parameter element is counted exactly once.
TEST(DryProof, EveryParameterCountsOnceInTheNorm) {
  TrainConfig c;
  c.model.layers = 4;
  c.model.hidden = 32;
  c.model.heads = 4;
  c.model.vocab = 64;  // no padding, so that elements add up
  c.model.vocab_multiple = 8;
  c.model.max_seq_len = 8;
  FillDefaults(c.model);
  c.workload = {.global_batch = 8, .seq_len = 8, .precision = *ParsePrecision("fp64")};
  c.plan.tp = 4;
  c.plan.pp = 2;
  c.plan.dp = 2;
  std::int64_t counted = 0;
  for (int rank = 0; rank < 16; ++rank) {
    Backend backend = CreateDryBackend(rank, 16);
    RankTrainer trainer(c, rank, 16, backend);
    trainer.Step();
    for (const OpDesc& op : backend.log->ops()) {
      if (op.kind == OpKind::kSumOfSquares) counted += op.dims[0];
    }
  }
  EXPECT_EQ(counted, ParameterCount(c.model));
}

}  // namespace
}  // namespace autocfg
