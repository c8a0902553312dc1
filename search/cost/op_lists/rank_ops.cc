#include "search/cost/op_lists/rank_ops.h"

#include <algorithm>
#include <stdexcept>

#include "search/cost/memory/rank_units.h"
#include "search/cost/op_lists/unit_ops.h"
#include "search/ops/memory_sizes.h"
#include "search/plan/model_stages.h"
#include "search/schedule/compute_order.h"
#include "search/shapes/local_dims.h"

namespace autocfg {
namespace {

// The ops of a rank, unit by unit (docs/engine.md).
class Lister {
 public:
  Lister(const RunView& run, std::int64_t pipeline_rank)
      : workload_(run.workload),
        plan_(run.plan),
        place_(PlaceOf(run.plan, pipeline_rank)),
        types_(run.workload.precision),
        dims_(LocalDimsOf(run)),
        sums_norms_(SumsNormGradients(run.model, run.plan)),
        splits_qk_norm_(run.model.qk_norm == QkNorm::kFull),
        units_(UnitsOf(dims_, run.model, run.plan, place_, RankLayers(run.model, run.plan, pipeline_rank))) {}

  std::vector<RepeatedOp> NormGradients() const {
    if (!sums_norms_) return {};
    // With norms over all heads, those of q and k are split like the heads, and not summed.
    const std::int64_t summed = !SplitsSequence(plan_) ? units_.own_head_norms
                                : splits_qk_norm_      ? units_.norms - units_.own_head_norms
                                                       : units_.norms;
    return {{CommunicationOp(OpKind::kAllReduceSum, types_.gradients, CommGroup::kTensor, plan_.tp, summed)}};
  }

  // Sums the gradients of key-value heads that ranks share. They come first in a layer's unit, so that part
  // `shard` has some of them, or none.
  std::vector<RepeatedOp> SharedHeads(std::int64_t shard) const {
    const std::int64_t part = units_.layer / StateShards(plan_);
    const std::int64_t elements = std::clamp<std::int64_t>(units_.shared_heads - shard * part, 0, part);
    if (elements == 0) return {};
    return {{CommunicationOp(OpKind::kAllReduceSum, types_.gradients, CommGroup::kKvReplica,
                             dims_.kv_replicas, elements),
             units_.layers}};
  }

  // What is not reduced in the computes: of all units, or of the norms alone.
  std::vector<RepeatedOp> Gradients() const {
    if (BatchRanks(plan_) == 1) return {};
    std::vector<RepeatedOp> ops;
    const bool all = !ShardsGradients(plan_) && !OverlapsGradients(plan_);
    const auto reduce = [&](std::int64_t elements, std::int64_t times) {
      ops.push_back({UnitReduceOp(workload_, plan_, elements), times});
    };
    if (all && !ShardsStates(plan_)) {
      reduce(units_.Total(), 1);  // the units lie in a row
    } else {
      ForEachUnit(all, reduce);
    }
    const std::int64_t shards = StateShards(plan_), replicas = StateReplicas(plan_);
    if (shards == 1 || replicas == 1) return ops;
    units_.ForEach([&](std::int64_t elements, std::int64_t times) {
      ops.push_back({CommunicationOp(OpKind::kAllReduceSum, types_.gradients, CommGroup::kReplica, replicas,
                                     elements / shards),
                     times});
    });
    return ops;
  }

  std::vector<RepeatedOp> TiedEmbedding() const {
    return {{CommunicationOp(OpKind::kAllReduceSum, types_.gradients, CommGroup::kEmbedding, 2,
                             units_.token_embedding / StateShards(plan_))}};
  }

  // Of the parameters that a rank keeps whole.
  std::vector<RepeatedOp> Parameters() const {
    std::vector<RepeatedOp> ops;
    ForEachUnit(!ShardsParameters(plan_), [&](std::int64_t elements, std::int64_t times) {
      ops.push_back({UnitGatherOp(workload_, plan_, elements), times});
    });
    return ops;
  }

  RankPlace place() const { return place_; }

 private:
  // All units, or the norms alone: the others are reduced, or gathered, where they are used.
  template <typename Visit>
  void ForEachUnit(bool all, const Visit& visit) const {
    if (all) {
      units_.ForEach(visit);
    } else {
      visit(units_.norms, std::int64_t{1});
    }
  }

  const Workload& workload_;
  const ParallelPlan& plan_;
  RankPlace place_;
  const Precision& types_;
  LocalDims dims_;
  bool sums_norms_, splits_qk_norm_;
  RankUnits units_;
};

std::vector<RepeatedOp> IfAny(const OpDesc& op) {
  if (op.dims[0] == 0) return {};
  return {{op}};
}

}  // namespace

OpDesc ParameterOp(const RunView& run, std::int64_t pipeline_rank, OpKind kind,
                   StateCoordinates coordinates) {
  const std::int64_t shards = StateShards(run.plan), kv_replicas = KvReplicas(run.model, run.plan);
  const bool sums = kind == OpKind::kSumOfSquares;
  std::int64_t elements = 0;
  if (!sums || coordinates.data < shards) {  // of the first replica
    elements = OwnElements(LocalDimsOf(run), run.model, run.plan, PlaceOf(run.plan, pipeline_rank),
                           RankLayers(run.model, run.plan, pipeline_rank), coordinates.data % shards,
                           {.replicated = !sums || coordinates.tensor == 0,
                            .shared_heads = !sums || coordinates.tensor % kv_replicas == 0,
                            .tied_copy = !sums});
  }
  const Precision& types = run.workload.precision;
  OpDesc op{.kind = kind, .dtype = types.gradients, .dims = {elements}};
  if (kind == OpKind::kAdamW) {
    op.dtype = types.parameters;
    op.master_weights = types.master_weights;
  }
  return op;
}

OpDesc ScalarReduceOp(const ParallelPlan& plan) {
  return CommunicationOp(OpKind::kAllReduceSum, DType::kF64, CommGroup::kWorld, RankCount(plan),
                         kStepScalars);
}

std::vector<RepeatedOp> RankOps(const RunView& run, std::int64_t pipeline_rank, ActionKind kind,
                                StateCoordinates coordinates) {
  const auto lister = [&] { return Lister(run, pipeline_rank); };
  const auto parameter_op = [&](OpKind op) { return ParameterOp(run, pipeline_rank, op, coordinates); };
  switch (kind) {
    case ActionKind::kZeroScalars: {
      std::vector<RepeatedOp> ops;
      if (OverlapsParameters(run.plan)) ops = lister().Parameters();
      ops.push_back({{.kind = OpKind::kFill, .dtype = DType::kF64, .dims = {kStepScalars}}});
      return ops;
    }
    case ActionKind::kSumNormGradients: return lister().NormGradients();
    case ActionKind::kReduceGradients: {
      const Lister ops = lister();
      std::vector<RepeatedOp> all = ops.Gradients();
      const std::vector<RepeatedOp> shared = ops.SharedHeads(coordinates.data % StateShards(run.plan));
      all.insert(all.end(), shared.begin(), shared.end());
      return all;
    }
    case ActionKind::kSumTiedEmbedding: {
      const Lister ops = lister();
      const auto [first, last] = ops.place();
      if (!run.model.tied_embeddings || first == last) return {};  // the only rank is both, others neither
      return ops.TiedEmbedding();
    }
    case ActionKind::kReduceScalars: {
      std::vector<RepeatedOp> ops = IfAny(parameter_op(OpKind::kSumOfSquares));
      if (RankCount(run.plan) > 1) ops.push_back({ScalarReduceOp(run.plan)});
      return ops;
    }
    case ActionKind::kOptimizer: return IfAny(parameter_op(OpKind::kAdamW));
    case ActionKind::kGatherParameters:
      return GathersAfterUpdate(run.plan) ? lister().Parameters() : std::vector<RepeatedOp>();
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
    case ActionKind::kWeightGradient:
    case ActionKind::kSendActivation:
    case ActionKind::kRecvActivation:
    case ActionKind::kSendGradient:
    case ActionKind::kRecvGradient: break;
  }
  throw std::logic_error("RankOps: an action of a microbatch");
}

}  // namespace autocfg
