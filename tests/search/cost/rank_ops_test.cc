#include "search/cost/op_lists/rank_ops.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/plan/plan_text.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::RandomRun;
using test::RandomRuns;
using test::SmallGpt;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> OpsText(const std::vector<RepeatedOp>& ops) {
  std::vector<std::string> text;
  for (const RepeatedOp& repeated : ops)
    text.push_back(ToString(repeated.op) +
                   (repeated.times == 1 ? "" : " x" + std::to_string(repeated.times)));
  return text;
}

// Compares two independent counts: the parameters that the ranks update at tp=1, and the model's parameters.
// With sharded states, all ranks of one replica have them together.
TEST(ParameterOps, AddUpToTheModel) {
  RandomRuns runs(47, {.tp = {1}});
  int sharded = 0;
  for (int i = 0; i < 500; ++i) {
    RandomRun run = runs.Next();
    run.model.vocab_multiple = 1;  // padding does not count as parameters
    std::int64_t updated = 0, in_norm = 0;
    sharded += ShardsStates(run.plan);
    for (std::int64_t rank = 0; rank < run.plan.pp; ++rank) {
      for (std::int64_t data = 0; data < run.plan.dp; ++data) {
        if (data < StateShards(run.plan)) {
          for (const RepeatedOp& update : RankOps(run, rank, ActionKind::kOptimizer, {.data = data}))
            updated += update.op.dims[0];
        }
        in_norm += GradientNormOp(run, rank, {.data = data}).dims[0];
      }
    }
    EXPECT_EQ(in_norm, ParameterCount(run.model)) << PlanText(run.plan);
    const bool two_tables = run.plan.pp > 1 && run.model.tied_embeddings;
    EXPECT_EQ(updated, ParameterCount(run.model) + (two_tables ? run.model.vocab * run.model.hidden : 0))
        << PlanText(run.plan);
  }
  EXPECT_GT(sharded, 50);
}

// A GPT of hidden 128, written out. Its rank has 2 of 4 layers; a layer without norms has 98,304 + 65,536 +
// 32,768 = 196,608 elements of matrices at tp=1, and 384 + 128 + 512 + 128 = 1,152 of biases.
class ShardedOpsTest : public ::testing::Test {
 protected:
  std::vector<std::string> Of(ActionKind kind, std::int64_t rank, StateCoordinates at = {}) const {
    return OpsText(RankOps({model_, workload_, plan_}, rank, kind, at));
  }

  static ModelSpec Model() {
    ModelSpec model = SmallGpt(4, 128, 4);
    model.vocab = 500;
    model.vocab_multiple = 128;  // 512 rows
    model.max_seq_len = 64;
    return model;
  }

  ModelSpec model_ = Model();
  Workload workload_ = Fp32(48, 64);
  ParallelPlan plan_ = *ParsePlanText("pp=2,dp=6,mbs=1,zero=1,dp_shard=3");
};

constexpr std::int64_t kMatrices = 128 * 384 + 128 * 128 + 2 * 128 * 512, kBiases = 384 + 128 + 512 + 128;

// A unit is a multiple of 3 x 64 = 192 elements.
std::int64_t Padded(std::int64_t elements) { return (elements + 191) / 192 * 192; }

std::string Text(std::string_view op, std::int64_t elements, std::int64_t times = 1) {
  return std::string(op) + " " + std::to_string(elements) + (times == 1 ? "" : " x" + std::to_string(times));
}

TEST_F(ShardedOpsTest, UnitByUnit) {
  const std::int64_t norms = Padded(2 * 4 * 128), last_norms = Padded(2 * 4 * 128 + 256);
  const std::int64_t layer = Padded(kMatrices + kBiases), table = Padded(512 * 128),
                     positions = Padded(64 * 128);
  const std::string scatter = "reduce_scatter fp32 shard/3", sum = "all_reduce_sum fp32 replica/2";
  EXPECT_THAT(Of(ActionKind::kReduceGradients, 0),
              ElementsAre(Text(scatter, norms), Text(scatter, table), Text(scatter, positions),
                          Text(scatter, layer, 2), Text(sum, norms / 3), Text(sum, table / 3),
                          Text(sum, positions / 3), Text(sum, layer / 3, 2)));
  EXPECT_THAT(Of(ActionKind::kReduceGradients, 1),
              ElementsAre(Text(scatter, last_norms), Text(scatter, table), Text(scatter, layer, 2),
                          Text(sum, last_norms / 3), Text(sum, table / 3), Text(sum, layer / 3, 2)));
  const std::string gather = "all_gather fp32 shard/3";
  EXPECT_THAT(
      Of(ActionKind::kGatherParameters, 0),
      ElementsAre(Text(gather, norms), Text(gather, table), Text(gather, positions), Text(gather, layer, 2)));
  EXPECT_THAT(Of(ActionKind::kSumTiedEmbedding, 0),
              ElementsAre(Text("all_reduce_sum fp32 embedding/2", table / 3)));

  plan_.dp_shard = 0;  // all six
  EXPECT_EQ(Of(ActionKind::kReduceGradients, 0).size(), 4u) << "there are no replicas";
  plan_.zero_stage = 0;
  EXPECT_THAT(Of(ActionKind::kGatherParameters, 0), IsEmpty());
  EXPECT_THAT(Of(ActionKind::kReduceGradients, 0),
              ElementsAre(Text("all_reduce_sum fp32 data/6",
                               2 * (4 * 128 + kMatrices + kBiases) + 512 * 128 + 64 * 128)));
}

TEST_F(ShardedOpsTest, EachRankUpdatesItsPart) {
  // Norms of 1,024 elements in parts of 384; table of 65,536 in parts of 21,888; positions of 8,192 in parts
  // of 2,752; layers of 197,760 without padding in parts of 65,920.
  EXPECT_THAT(Of(ActionKind::kOptimizer, 0), ElementsAre(Text("adamw fp32", 384 + 21888 + 2752 + 2 * 65920)));
  EXPECT_THAT(Of(ActionKind::kOptimizer, 0, {.data = 2}),
              ElementsAre(Text("adamw fp32", 256 + 21760 + 2688 + 2 * 65920)));
  EXPECT_EQ(Of(ActionKind::kOptimizer, 0, {.data = 5}), Of(ActionKind::kOptimizer, 0, {.data = 2}));
  // The second replica counts nothing, the last rank not its copy of the table.
  EXPECT_THAT(Of(ActionKind::kReduceScalars, 0, {.data = 2}),
              ElementsAre(Text("sum_of_squares fp32", 256 + 21760 + 2688 + 2 * 65920),
                          "all_reduce_sum fp64 world/12 2"));
  EXPECT_THAT(Of(ActionKind::kReduceScalars, 0, {.data = 3}), ElementsAre("all_reduce_sum fp64 world/12 2"));
  EXPECT_THAT(Of(ActionKind::kReduceScalars, 1),
              ElementsAre(Text("sum_of_squares fp32", 448 + 2 * 65920), "all_reduce_sum fp64 world/12 2"));
}

TEST(RankOps, RefusesActionsOfMicrobatches) {
  EXPECT_THROW(RankOps({SmallGpt(2), Fp32(4, 16), {}}, 0, ActionKind::kForward), std::logic_error);
}

}  // namespace
}  // namespace autocfg
