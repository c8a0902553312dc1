// Where the collectives of units stand among the ops of actions.
#include "search/cost/op_lists/unit_ops.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/blocks/embedding.h"
#include "search/blocks/head.h"
#include "search/blocks/layer.h"
#include "search/cost/memory/rank_units.h"
#include "search/cost/op_lists/action_ops.h"
#include "search/plan/placement.h"
#include "search/plan/plan_text.h"
#include "search/schedule/action_kinds.h"
#include "search/schedule/program.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::RandomRun;
using test::RandomRuns;
using ::testing::ElementsAre;

// H = 64, F = 256, V = 128, 64 positions; two layers unless a test has more. Elements of the units: of a
// layer 64*192 + 192 + 64*64 + 64 + 64*256 + 256 + 256*64 + 64 = 49,728, with sharded states of two ranks
// 49,792; of the table and the output layer 8,192; of positions 4,096; of the norms 4*64 a layer, and 128.
class UnitOpsTest : public ::testing::Test {
 protected:
  using Blocks = std::vector<std::pair<std::string, std::vector<OpDesc>>>;

  // Returns the ops of an action as text, without the types. Those of an embedding, a layer or a head in a
  // row are one word.
  std::vector<std::string> Outline(const char* plan_text, ActionKind kind, std::int32_t stage,
                                   std::int32_t microbatch) const {
    const ParallelPlan plan = *ParsePlanText(plan_text);
    const Action action{.kind = kind, .stage = stage, .microbatch = microbatch};
    const bool accumulate = !WritesGradients(kind, microbatch);
    const Blocks blocks =
        kind == ActionKind::kForward
            ? Blocks{{"embedding", EmbeddingForwardOps({model, workload, plan})},
                     {"positions", PositionForwardOps({model, workload, plan})},
                     {"layer", LayerForwardOps({model, workload, plan})},
                     {"head", HeadForwardOps({model, workload, plan})}}
            : Blocks{{"head", HeadBackwardOps({model, workload, plan}, accumulate)},
                     {"layer", LayerBackwardOps({model, workload, plan}, accumulate)},
                     {"layer inputs",
                      LayerBackwardOps({model, workload, plan}, accumulate, {}, Gradients::kInputs)},
                     {"layer weights",
                      LayerBackwardOps({model, workload, plan}, accumulate, {}, Gradients::kWeights)},
                     {"recompute", LayerRecomputeOps({model, workload, plan})},
                     {"positions", PositionBackwardOps({model, workload, plan}, accumulate)},
                     {"embedding", EmbeddingBackwardOps({model, workload, plan}, accumulate)}};
    const std::vector<OpDesc> ops = ActionOps({model, workload, plan}, PipelineRankOf(plan, stage), action);
    std::vector<std::string> words;
    for (auto op = ops.begin(); op != ops.end();) {
      const auto starts = [&](const auto& block) {
        return !block.second.empty() && ops.end() - op >= std::ssize(block.second) &&
               std::equal(block.second.begin(), block.second.end(), op);
      };
      if (const auto block = std::find_if(blocks.begin(), blocks.end(), starts); block != blocks.end()) {
        words.push_back(block->first);
        op += std::ssize(block->second);
        continue;
      }
      words.push_back(ToString(*op++));
      if (const auto type = words.back().find(" fp32"); type != std::string::npos)
        words.back().erase(type, 5);
    }
    return words;
  }
  std::vector<std::string> Forward(const char* plan) const {
    return Outline(plan, ActionKind::kForward, 0, 1);
  }
  std::vector<std::string> Backward(const char* plan, std::int32_t stage, std::int32_t microbatch) const {
    return Outline(plan, ActionKind::kBackward, stage, microbatch);
  }

  ModelSpec model = test::SmallGpt(2, 64, 4, 128);
  Workload workload = test::Fp32(8, 16);  // four microbatches of dp=2
};

const std::string kGatherTable = "all_gather shard/2 8192", kGatherOutput = kGatherTable,
                  kGatherPositions = "all_gather shard/2 4096", kGatherLayer = "all_gather shard/2 49792";
const std::string kReduceTable = "reduce_scatter shard/2 8192", kReduceOutput = kReduceTable,
                  kReducePositions = "reduce_scatter shard/2 4096",
                  kReduceLayer = "reduce_scatter shard/2 49792";
const std::string kAddTable = "residual_add 64x64", kAddOutput = kAddTable,
                  kAddPositions = "residual_add 32x64", kAddLayer = "residual_add 389x64";
const std::string kSumTable = "all_reduce_sum data/2 8192", kSumOutput = kSumTable,
                  kSumPositions = "all_reduce_sum data/2 4096", kSumLayer = "all_reduce_sum data/2 49728";

TEST_F(UnitOpsTest, OpsOfAUnit) {
  ParallelPlan plan{{.dp = 4}, {}, {}, {}, {.zero_stage = 2}};
  workload.precision = *ParsePrecision("bf16");  // gradients are fp32
  EXPECT_EQ(ToString(UnitGatherOp(workload, plan, 512)), "all_gather bf16 shard/4 512");
  EXPECT_EQ(ToString(UnitReduceOp(workload, plan, 512)), "reduce_scatter fp32 shard/4 512");
  EXPECT_EQ(ToString(UnitAddOp(workload, plan, 512)), "residual_add fp32 2x64");
  plan.dp_shard = 2;
  EXPECT_EQ(ToString(UnitReduceOp(workload, plan, 512)), "reduce_scatter fp32 shard/2 512");
  EXPECT_EQ(ToString(UnitAddOp(workload, plan, 512)), "residual_add fp32 4x64");
  plan.zero_stage = 0;
  EXPECT_EQ(ToString(UnitReduceOp(workload, plan, 512)), "all_reduce_sum fp32 data/4 512");
}

TEST_F(UnitOpsTest, ForwardReadsGatheredUnits) {
  const std::vector<std::string> plain = {"embedding", "positions", "layer", "layer", "head"};
  for (const char* plan :
       {"dp=2", "dp=2,zero=1,param_overlap=1", "dp=2,zero=2", "dp=2,zero=2,param_overlap=1"})
    EXPECT_EQ(Forward(plan), plain) << plan;
  // The head gathers a tied table again, since the layers have used its buffer.
  EXPECT_THAT(Forward("dp=2,zero=3"),
              ElementsAre(kGatherTable, "embedding", kGatherPositions, "positions", kGatherLayer, "layer",
                          kGatherLayer, "layer", kGatherTable, "head"));
  model.tied_embeddings = false;
  EXPECT_THAT(Forward("dp=2,zero=3"),
              ElementsAre(kGatherTable, "embedding", kGatherPositions, "positions", kGatherLayer, "layer",
                          kGatherLayer, "layer", kGatherOutput, "head"));
  model.position = Position::kRope;
  EXPECT_EQ(Forward("dp=2,zero=3")[2], kGatherLayer) << "no positions";
}

// With overlap each unit is gathered one block earlier. A tied table keeps its buffer until the head.
TEST_F(UnitOpsTest, ForwardGathersOneUnitAhead) {
  EXPECT_THAT(Forward("dp=2,zero=3,param_overlap=1"),
              ElementsAre(kGatherTable, kGatherPositions, "embedding", kGatherLayer, "positions",
                          kGatherLayer, "layer", "layer", "head"));
  model.tied_embeddings = false;
  EXPECT_THAT(Forward("dp=2,zero=3,param_overlap=1"),
              ElementsAre(kGatherTable, kGatherPositions, "embedding", kGatherLayer, "positions",
                          kGatherLayer, "layer", kGatherOutput, "layer", "head"));
}

// The first microbatch writes the sums, the others add them. A tied table is reduced after the embedding.
TEST_F(UnitOpsTest, BackwardReducesShardedGradients) {
  for (const char* plan : {"dp=2,zero=2", "dp=2,zero=2,param_overlap=1"}) {
    EXPECT_THAT(Backward(plan, 0, 0), ElementsAre("head", "layer", kReduceLayer, "layer", kReduceLayer,
                                                  "positions", kReducePositions, "embedding", kReduceTable));
    EXPECT_THAT(Backward(plan, 0, 1), ElementsAre("head", "layer", kReduceLayer, kAddLayer, "layer",
                                                  kReduceLayer, kAddLayer, "positions", kReducePositions,
                                                  kAddPositions, "embedding", kReduceTable, kAddTable));
  }
  EXPECT_EQ(Backward("dp=2,zero=2", 0, 3), Backward("dp=2,zero=2", 0, 1))
      << "the last one is like the others";
  model.tied_embeddings = false;
  EXPECT_THAT(Backward("dp=2,zero=2", 0, 1),
              ElementsAre("head", kReduceOutput, kAddOutput, "layer", kReduceLayer, kAddLayer, "layer",
                          kReduceLayer, kAddLayer, "positions", kReducePositions, kAddPositions, "embedding",
                          kReduceTable, kAddTable));
}

// With overlap the sum of a unit is added when the second one after it needs its buffer, and at the end. A
// tied table has a buffer of its own.
TEST_F(UnitOpsTest, BackwardAddsWhereBuffersAreNeeded) {
  for (const char* plan : {"dp=2,zero=2,grad_overlap=1", "dp=2,zero=2,grad_overlap=1,param_overlap=1"}) {
    EXPECT_THAT(Backward(plan, 0, 0), ElementsAre("head", "layer", kReduceLayer, "layer", kReduceLayer,
                                                  "positions", kReducePositions, "embedding", kReduceTable));
    EXPECT_THAT(Backward(plan, 0, 1), ElementsAre("head", "layer", kReduceLayer, "layer", kReduceLayer,
                                                  kAddLayer, "positions", kReducePositions, "embedding",
                                                  kReduceTable, kAddLayer, kAddPositions, kAddTable));
  }
  model.tied_embeddings = false;
  EXPECT_THAT(Backward("dp=2,zero=2,grad_overlap=1", 0, 1),
              ElementsAre("head", kReduceOutput, "layer", kReduceLayer, kAddOutput, "layer", kReduceLayer,
                          kAddLayer, "positions", kReducePositions, kAddLayer, "embedding", kReduceTable,
                          kAddPositions, kAddTable));
}

// A layer is gathered again for its backward, and what that recomputes. The head's unit is still there.
TEST_F(UnitOpsTest, BackwardReadsGatheredUnits) {
  EXPECT_THAT(Backward("dp=2,zero=3", 0, 1),
              ElementsAre("head", kGatherLayer, "layer", kReduceLayer, kAddLayer, kGatherLayer, "layer",
                          kReduceLayer, kAddLayer, "positions", kReducePositions, kAddPositions, "embedding",
                          kReduceTable, kAddTable));
  EXPECT_THAT(Backward("dp=2,zero=3,recompute=full:1", 0, 0),
              ElementsAre("head", kGatherLayer, "layer", kReduceLayer, kGatherLayer, "recompute", "layer",
                          kReduceLayer, "positions", kReducePositions, "embedding", kReduceTable));
  EXPECT_THAT(Backward("dp=2,zero=3,param_overlap=1", 0, 0),
              ElementsAre(kGatherLayer, "head", kGatherLayer, "layer", kReduceLayer, "layer", kReduceLayer,
                          "positions", kReducePositions, "embedding", kReduceTable));
  EXPECT_THAT(Backward("dp=2,zero=3,grad_overlap=1,param_overlap=1", 0, 1),
              ElementsAre(kGatherLayer, "head", kGatherLayer, "layer", kReduceLayer, "layer", kReduceLayer,
                          kAddLayer, "positions", kReducePositions, "embedding", kReduceTable, kAddLayer,
                          kAddPositions, kAddTable));
  model.tied_embeddings = false;
  EXPECT_THAT(Backward("dp=2,zero=3,grad_overlap=1,param_overlap=1", 0, 1),
              ElementsAre(kGatherLayer, "head", kReduceOutput, kGatherLayer, "layer", kReduceLayer,
                          kAddOutput, "layer", kReduceLayer, kAddLayer, "positions", kReducePositions,
                          kAddLayer, "embedding", kReduceTable, kAddPositions, kAddTable));
}

// Gradients that a rank keeps whole are reduced in its last compute alone. Nothing is added: the reduction is
// of the step's sum.
TEST_F(UnitOpsTest, LastBackwardReducesWholeGradients) {
  const std::vector<std::string> plain = {"head", "layer", "layer", "positions", "embedding"};
  for (const char* plan : {"dp=2", "dp=2,zero=1", "dp=2,zero=1,param_overlap=1"})
    EXPECT_EQ(Backward(plan, 0, 3), plain) << plan;
  for (const char* plan : {"dp=2,grad_overlap=1", "dp=2,zero=1,grad_overlap=1"}) {
    for (const std::int32_t microbatch : {0, 1, 2}) EXPECT_EQ(Backward(plan, 0, microbatch), plain) << plan;
  }
  EXPECT_THAT(Backward("dp=2,grad_overlap=1", 0, 3),
              ElementsAre("head", "layer", kSumLayer, "layer", kSumLayer, "positions", kSumPositions,
                          "embedding", kSumTable));
  EXPECT_THAT(Backward("dp=2,zero=1,grad_overlap=1", 0, 3),
              ElementsAre("head", "layer", kReduceLayer, "layer", kReduceLayer, "positions", kReducePositions,
                          "embedding", kReduceTable));
  model.tied_embeddings = false;
  EXPECT_THAT(Backward("dp=2,grad_overlap=1", 0, 3),
              ElementsAre("head", kSumOutput, "layer", kSumLayer, "layer", kSumLayer, "positions",
                          kSumPositions, "embedding", kSumTable));
  EXPECT_THAT(Backward("dp=2,mbs=4,grad_overlap=1", 0, 0),
              ElementsAre("head", kSumOutput, "layer", kSumLayer, "layer", kSumLayer, "positions",
                          kSumPositions, "embedding", kSumTable))
      << "of one microbatch";
}

// Each rank reduces its own units. The last one's copy of a tied table is complete after the head.
TEST_F(UnitOpsTest, LastBackwardsOfAPipeline) {
  for (const auto& [plan, layer, table, positions] :
       {std::tuple("pp=2,dp=2,grad_overlap=1", kSumLayer, kSumTable, kSumPositions),
        std::tuple("pp=2,dp=2,zero=1,grad_overlap=1", kReduceLayer, kReduceTable, kReducePositions)}) {
    EXPECT_THAT(Backward(plan, 0, 2), ElementsAre("layer", "positions", "embedding")) << plan;
    EXPECT_THAT(Backward(plan, 1, 2), ElementsAre("head", "layer")) << plan;
    EXPECT_THAT(Backward(plan, 0, 3), ElementsAre("layer", layer, "positions", positions, "embedding", table))
        << plan;
    EXPECT_THAT(Backward(plan, 1, 3), ElementsAre("head", table, "layer", layer)) << plan;
  }
  model.tied_embeddings = false;
  EXPECT_THAT(Backward("pp=2,dp=2,grad_overlap=1", 1, 3),
              ElementsAre("head", kSumOutput, "layer", kSumLayer));
}

// A rank of several stages ends with its first one. It reduces the units of the others before that.
TEST_F(UnitOpsTest, LastBackwardReducesUnitsOfOtherStagesFirst) {
  model.layers = 4;
  const char* plan = "pp=2,dp=2,vpp=2,grad_overlap=1";
  EXPECT_THAT(Backward(plan, 2, 3), ElementsAre("layer"));
  EXPECT_THAT(Backward(plan, 3, 3), ElementsAre("head", "layer"));
  EXPECT_THAT(Backward(plan, 0, 3),
              ElementsAre(kSumLayer, "layer", kSumLayer, "positions", kSumPositions, "embedding", kSumTable));
  EXPECT_THAT(Backward(plan, 1, 3), ElementsAre(kSumTable, kSumLayer, "layer", kSumLayer));
  model.tied_embeddings = false;
  EXPECT_THAT(Backward(plan, 1, 3), ElementsAre(kSumLayer, kSumOutput, "layer", kSumLayer));
  EXPECT_THAT(Backward("pp=2,dp=2,vpp=2,zero=1,grad_overlap=1", 1, 3),
              ElementsAre(kReduceLayer, kReduceOutput, "layer", kReduceLayer));
  // Of two layers in the first stage and one in the other, each reduces after its own.
  model.layers = 6;
  EXPECT_THAT(Backward("pp=2,dp=2,vpp=2,split=2+1+1+2,grad_overlap=1", 0, 3),
              ElementsAre(kSumLayer, "layer", kSumLayer, "layer", kSumLayer, "positions", kSumPositions,
                          "embedding", kSumTable));
}

// Under zb-h1 the last compute makes weight gradients of layers. All other units are complete before it, also
// layers that recompute, which delay nothing.
TEST_F(UnitOpsTest, LastWeightGradientReduces) {
  model.layers = 4;
  const char* plan = "pp=2,dp=2,schedule=zb-h1,grad_overlap=1";
  const auto inputs = [&](std::int32_t stage) { return Outline(plan, ActionKind::kInputGradient, stage, 3); };
  const auto weights = [&](std::int32_t stage, std::int32_t microbatch) {
    return Outline(plan, ActionKind::kWeightGradient, stage, microbatch);
  };
  for (const std::int32_t stage : {0, 1})
    EXPECT_THAT(weights(stage, 2), ElementsAre("layer weights", "layer weights"));
  EXPECT_THAT(inputs(0), ElementsAre("layer inputs", "layer inputs", "positions", "embedding"));
  EXPECT_THAT(inputs(1), ElementsAre("head", "layer inputs", "layer inputs"));
  EXPECT_THAT(weights(0, 3),
              ElementsAre(kSumTable, kSumPositions, "layer weights", kSumLayer, "layer weights", kSumLayer));
  EXPECT_THAT(weights(1, 3), ElementsAre(kSumTable, "layer weights", kSumLayer, "layer weights", kSumLayer));
  model.tied_embeddings = false;
  EXPECT_THAT(weights(1, 3), ElementsAre(kSumOutput, "layer weights", kSumLayer, "layer weights", kSumLayer));
  plan = "pp=2,dp=2,schedule=zb-h1,recompute=full:1,grad_overlap=1";
  EXPECT_THAT(weights(0, 3), ElementsAre(kSumTable, kSumPositions, kSumLayer, "layer weights", kSumLayer));
  plan = "pp=2,dp=2,schedule=zb-h1,recompute=full,grad_overlap=1";
  EXPECT_THAT(weights(0, 3), ElementsAre(kSumTable, kSumPositions, kSumLayer, kSumLayer));
}

// Over all actions of a step, each unit of each rank is reduced once over the ranks that share its states.
TEST(UnitOps, EachUnitIsReducedOnceInAStep) {
  RandomRuns runs(71, {.dp = {2, 3, 4}});
  std::map<std::pair<std::int64_t, Schedule>, int> seen;  // by zero stage and schedule
  for (int i = 0; i < 400; ++i) {
    const RandomRun run = runs.Next();
    const ParallelPlan& plan = run.plan;
    if (!OverlapsGradients(plan) || ShardsGradients(plan)) continue;
    SCOPED_TRACE(PlanText(plan));
    ++seen[{plan.zero_stage, plan.schedule}];
    const CommGroup group = ShardsStates(plan) ? CommGroup::kShard : CommGroup::kData;
    const Program program = Lower({run.model, run.workload, plan});
    for (std::int64_t rank = 0; rank < plan.pp; ++rank) {
      std::map<std::int64_t, std::int64_t> reduced, wanted;  // elements of a unit -> times
      std::int64_t in_computes = 0;
      for (const Action& action : program.ranks[static_cast<std::size_t>(rank * plan.tp * plan.dp)]) {
        for (const OpDesc& op : ActionOps({run.model, run.workload, plan}, rank, action)) {
          if (op.group != group || op.kind == OpKind::kAllGather) continue;
          EXPECT_EQ(op, UnitReduceOp(run.workload, plan, op.dims[0]));
          ++reduced[op.dims[0]];
          in_computes += IsStageCompute(action.kind) ? 1 : 0;
        }
      }
      const RankUnits units = UnitsOf(LocalDimsOf({run.model, run.workload, plan}), run.model, plan,
                                      PlaceOf(plan, rank), RankLayers(run.model, plan, rank));
      std::int64_t count = -1;  // the norms are reduced after the computes
      units.ForEach([&](UnitKind, std::int64_t elements, std::int64_t times) {
        wanted[elements] += times;
        count += times;
      });
      EXPECT_EQ(reduced, wanted) << "rank " << rank;
      EXPECT_EQ(in_computes, count) << "rank " << rank;
    }
  }
  EXPECT_EQ(seen.size(), 2 * kScheduleCount);
}

}  // namespace
}  // namespace autocfg
