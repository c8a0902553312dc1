#include "search/cost/op_lists/rank_ops.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

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

  // What is not reduced in the computes.
  std::vector<RepeatedOp> Gradients() const {
    if (BatchRanks(plan_) == 1) return {};
    std::vector<RepeatedOp> ops;
    if (!ShardsStates(plan_) && !OverlapsGradients(plan_)) {
      ops.push_back({UnitReduceOp(workload_, plan_, units_.Total())});  // the units lie in a row
    } else {
      units_.ForEach([&](UnitKind kind, std::int64_t elements, std::int64_t times) {
        if (!IsReducedInComputes(plan_, kind))
          ops.push_back({UnitReduceOp(workload_, plan_, elements), times});
      });
    }
    const std::int64_t shards = StateShards(plan_), replicas = StateReplicas(plan_);
    if (shards == 1 || replicas == 1) return ops;
    units_.ForEach([&](UnitKind, std::int64_t elements, std::int64_t times) {
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
    units_.ForEach([&](UnitKind kind, std::int64_t elements, std::int64_t times) {
      if (IsSharded(plan_, kind, State::kParameters)) return;  // gathered where they are used
      ops.push_back({UnitGatherOp(workload_, plan_, elements), times});
    });
    return ops;
  }

  RankPlace place() const { return place_; }

 private:
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

// Returns the elements of the parameters whose states the rank has; `sums`: that it counts in the norm.
std::int64_t ElementsOf(const RunView& run, std::int64_t pipeline_rank, bool sums,
                        StateCoordinates coordinates) {
  const std::int64_t shards = StateShards(run.plan), kv_replicas = KvReplicas(run.model, run.plan);
  if (sums && coordinates.data >= shards) return 0;  // not of the first replica
  return OwnElements(LocalDimsOf(run), run.model, run.plan, PlaceOf(run.plan, pipeline_rank),
                     RankLayers(run.model, run.plan, pipeline_rank), coordinates.data % shards,
                     {.replicated = !sums || coordinates.tensor == 0,
                      .shared_heads = !sums || coordinates.tensor % kv_replicas == 0,
                      .tied_copy = !sums});
}

OpDesc SumOfSquaresOp(const Precision& types, std::int64_t elements) {
  return {.kind = OpKind::kSumOfSquares, .dtype = types.gradients, .dims = {elements}};
}

OpDesc UpdateOp(const Precision& types, OpKind kind, bool has_moments, std::int64_t elements) {
  OpDesc op{.kind = kind, .dtype = types.parameters, .dims = {elements}};
  op.gradients = GradientsOfOps(types);
  if (has_moments) op.moments = types.moments;
  op.master = types.master;
  return op;
}

// Lists the products by which Muon orthogonalizes the updates of the layers' matrices: five Newton-Schulz
// iterations of A = X X^T, A^2 and A X, in the compute type (Jordan et al. 2024). A rank has those of its
// part of each matrix; the ranks that share states divide the layers.
std::vector<RepeatedOp> NewtonSchulz(const RunView& run, std::int64_t layers) {
  constexpr std::int64_t kIterations = 5;
  const LocalDims s = LocalDimsOf(run);
  const std::int64_t shards = StateShards(run.plan);
  std::vector<RepeatedOp> ops;
  for (const auto& [in, out] :
       {std::pair(s.hidden, s.qkv), {s.attention, s.hidden}, {s.hidden, s.fc}, {s.ffn, s.hidden}}) {
    const std::int64_t low = std::min(in, out), high = std::max(in, out);
    const std::int64_t times = kIterations * ((layers + shards - 1) / shards);
    const auto product = [&](std::int64_t n, std::int64_t k, bool transposed) {
      OpDesc op{.kind = OpKind::kMatmul, .dtype = run.workload.precision.compute, .dims = {low, n, k}};
      op.transpose_b = transposed;
      ops.push_back({op, times});
    };
    product(low, high, true);
    product(low, low, false);
    product(high, low, false);
  }
  return ops;
}

// Lists what the optimizer does to the parameters whose states the rank has. Optimizers that are predicted
// only are ops with the same traffic.
std::vector<RepeatedOp> UpdateOps(const RunView& run, std::int64_t pipeline_rank,
                                  StateCoordinates coordinates) {
  const Precision& types = run.workload.precision;
  const std::int64_t elements = ElementsOf(run, pipeline_rank, /*sums=*/false, coordinates);
  if (elements == 0) return {};
  const bool has_moments = MomentCount(run.workload.optimizer) > 0;
  switch (run.workload.optimizer.kind) {
    case OptimizerKind::kAdamW: return {{UpdateOp(types, OpKind::kAdamW, has_moments, elements)}};
    case OptimizerKind::kSgd:
    case OptimizerKind::kLion: return {{UpdateOp(types, OpKind::kSgd, has_moments, elements)}};
    case OptimizerKind::kAdafactor:  // means of rows and columns first
      return {{SumOfSquaresOp(types, elements)}, {UpdateOp(types, OpKind::kSgd, has_moments, elements)}};
    case OptimizerKind::kMuon: break;
  }
  const RankPlace place = PlaceOf(run.plan, pipeline_rank);
  const std::int64_t layers = RankLayers(run.model, run.plan, pipeline_rank);
  const RankUnits units = UnitsOf(LocalDimsOf(run), run.model, run.plan, place, layers);
  const std::int64_t of_layers = std::min(elements, units.layer * layers / StateShards(run.plan));
  std::vector<RepeatedOp> ops = NewtonSchulz(run, layers);
  ops.push_back({UpdateOp(types, OpKind::kSgd, has_moments, of_layers)});
  if (elements > of_layers)
    ops.push_back({UpdateOp(types, OpKind::kAdamW, has_moments, elements - of_layers)});
  return ops;
}

}  // namespace

OpDesc GradientNormOp(const RunView& run, std::int64_t pipeline_rank, StateCoordinates coordinates) {
  return SumOfSquaresOp(run.workload.precision, ElementsOf(run, pipeline_rank, /*sums=*/true, coordinates));
}

OpDesc ScalarReduceOp(const ParallelPlan& plan) {
  return CommunicationOp(OpKind::kAllReduceSum, DType::kF64, CommGroup::kWorld, RankCount(plan),
                         kStepScalars);
}

std::vector<RepeatedOp> RankOps(const RunView& run, std::int64_t pipeline_rank, ActionKind kind,
                                StateCoordinates coordinates) {
  const auto lister = [&] { return Lister(run, pipeline_rank); };
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
      std::vector<RepeatedOp> ops = IfAny(GradientNormOp(run, pipeline_rank, coordinates));
      if (RankCount(run.plan) > 1) ops.push_back({ScalarReduceOp(run.plan)});
      return ops;
    }
    case ActionKind::kOptimizer: return UpdateOps(run, pipeline_rank, coordinates);
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
