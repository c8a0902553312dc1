#include "search/cost/memory/memory_model.h"

#include <cstddef>

#include "search/cost/memory/rank_units.h"
#include "search/ops/memory_sizes.h"
#include "search/plan/model_stages.h"
#include "search/schedule/generators.h"
#include "search/shapes/local_dims.h"

namespace autocfg {
namespace {

// The values that all ranks of a plan share, computed once.
class PlanMemory {
 public:
  PlanMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan)
      : model_(model),
        plan_(plan),
        types_(workload.precision),
        s_(LocalDimsOf(model, workload, plan)),
        microbatches_(MicrobatchCount(workload, plan)) {
    const std::int64_t e = SizeOf(types_.compute), st = SizeOf(types_.statistics);
    const auto rows = [&](std::int64_t width) { return AlignedBytes(s_.tokens * width * e); };
    const std::int64_t per_token = AlignedBytes(s_.tokens * st);  // one statistic per token
    // of one norm
    const std::int64_t statistics = (HasMean(model.norm) ? 2 : 1) * AlignedBytes(s_.rows * st);
    const std::int64_t probabilities = AlignedBytes(s_.micro_batch * s_.heads * s_.seq_len * s_.seq_len * e);
    const std::int64_t all_hidden = rows(s_.hidden);
    hidden_ = AlignedBytes(s_.rows * s_.hidden * e);
    message_ = AlignedBytes(s_.message * e);
    ids_ = AlignedBytes(s_.tokens * SizeOf(DType::kI32));

    // One layer's tensors except its input x: as computed, and as kept in a slot.
    const std::int64_t kept_by_attention =
        IsUnfused(plan) ? probabilities : AlignedBytes(s_.micro_batch * s_.heads * s_.seq_len * st);
    inner_ = 2 * statistics + 3 * hidden_ + rows(s_.qkv) + kept_by_attention + rows(s_.attention) +
             rows(s_.fc) + rows(s_.ffn);
    kept_ = inner_ - (RecomputesScores(plan) ? probabilities : 0);
    head_ = 2 * hidden_ + statistics + rows(s_.vocab) + ids_;
    if (plan.tp > 1) head_ += per_token + AlignedBytes(2 * s_.tokens * st);

    workspace_ = all_hidden + rows(s_.qkv) + rows(s_.attention) + rows(s_.ffn) +
                 AlignedBytes(kStepScalars * SizeOf(DType::kF64));
    workspace_ += IsUnfused(plan) ? probabilities
                                  : AlignedBytes(AttentionWorkspaceElements(s_.seq_len, s_.head_dim) * st);
    if (RecomputesScores(plan)) workspace_ += probabilities;
    if (IsGated(model.activation)) workspace_ += rows(s_.fc);
    if (plan.pp == 1) workspace_ += hidden_;
    if (plan.recompute == Recompute::kFull) workspace_ += inner_;
    if (SplitsSequence(plan) && TensorChunks(plan) > 1) workspace_ += hidden_;  // scattered sums
    if (SplitsBackward(plan)) workspace_ += hidden_ + message_;                 // exchanged with slots
  }

  MemoryBytes Of(std::int64_t pipeline_rank) const {
    const RankPlace place = PlaceOf(plan_, pipeline_rank);
    std::int64_t layers = 0;
    MemoryBytes bytes;
    for (std::int64_t chunk = 0; chunk < plan_.virtual_stages; ++chunk) {
      const std::int64_t stage = StageOf(plan_, pipeline_rank, chunk);
      const std::int64_t count = StageLayerCount(model_, plan_, stage);
      layers += count;
      std::int64_t slot = count * hidden_ + (count - FullyRecomputedLayers(plan_, count)) * kept_;
      // Where the input of the stage arrives, or a gradient is exchanged.
      const bool split = SplitsBackward(plan_);
      if (!IsFirstStage(stage) || split) slot += message_ - hidden_;
      if (IsFirstStage(stage)) slot += ids_;
      const std::int64_t in_flight = InFlight(plan_, microbatches_, stage);
      bytes.activations += slot * in_flight;
      // Where backwards are split, a microbatch needs the head only until its input gradient.
      if (IsLastStage(plan_, stage)) bytes.activations += head_ * (split ? 1 : in_flight);
    }
    const RankUnits units = UnitsOf(s_, model_, plan_, place, layers);
    const std::int64_t elements = units.Total(), shards = StateShards(plan_);
    const std::int64_t parts = units.norms + (elements - units.norms) / shards;  // but for the norms
    bytes.parameters = (ShardsParameters(plan_) ? parts : elements) * SizeOf(types_.parameters);
    bytes.gradients = (ShardsGradients(plan_) ? parts : elements) * SizeOf(types_.gradients);
    bytes.optimizer = elements / shards * SizeOf(types_.optimizer) * (types_.master_weights ? 3 : 2);

    bytes.workspace = workspace_;
    // The gradient of a tied table is complete only after that of the embedding. Two buffers take turns where
    // one unit is used while another is reduced or gathered.
    const auto of_units = [&](bool two, bool own_table) {
      return units.LargestStreamed(!own_table) * (two ? 2 : 1) + (own_table ? units.token_embedding : 0);
    };
    const bool tied = model_.tied_embeddings;
    if (ShardsGradients(plan_))
      bytes.workspace += of_units(OverlapsGradients(plan_), tied) * SizeOf(types_.gradients);
    if (ShardsParameters(plan_)) {
      const bool two = OverlapsParameters(plan_);
      bytes.workspace += of_units(two, two && tied) * SizeOf(types_.parameters);
    }
    // Only a last rank with a single stage sends no output and receives no gradient.
    const bool one_way = place.last && plan_.virtual_stages == 1;
    const std::int64_t buffers = one_way ? 2 : OverlapsMessages(plan_) ? 5 : 4;
    if (plan_.pp > 1) bytes.communication += buffers * message_;
    const bool embedding_group = plan_.pp > 1 && model_.tied_embeddings && (place.first || place.last);
    const bool sharded = ShardsStates(plan_), replicas = StateReplicas(plan_) > 1;
    bytes.communication += kCollectiveStagingBytes *
                           ((plan_.tp > 1) + sharded + replicas + embedding_group + (RankCount(plan_) > 1));
    return bytes;
  }

 private:
  const ModelSpec& model_;
  const ParallelPlan& plan_;
  const Precision& types_;
  LocalDims s_;
  std::int64_t microbatches_;
  std::int64_t hidden_ = 0;   // [R,H e]
  std::int64_t message_ = 0;  // a buffer of a message
  std::int64_t ids_ = 0;      // [T int32]
  std::int64_t inner_ = 0, kept_ = 0, head_ = 0, workspace_ = 0;
};

}  // namespace

MemoryBytes RankMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                       std::int64_t pipeline_rank) {
  return PlanMemory(model, workload, plan).Of(pipeline_rank);
}

MemoryBytes WorstRankMemory(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan) {
  const PlanMemory memory(model, workload, plan);
  MemoryBytes worst = memory.Of(0);
  const auto consider = [&](std::int64_t rank) {
    const MemoryBytes bytes = memory.Of(rank);
    if (bytes.Arena() > worst.Arena()) worst = bytes;
  };
  if (plan.split == SplitMode::kExplicit) {
    for (std::int64_t rank = 1; rank < plan.pp; ++rank) consider(rank);
  } else {
    // Middle ranks hold the same parameters, and slots of the same sizes, one per in-flight microbatch of
    // their stages. From rank 1 on, none of their stages has more in flight than the same chunk of the
    // previous rank: in every schedule, later ranks have a shorter warm-up.
    if (plan.pp > 2) consider(1);
    if (plan.pp > 1) consider(plan.pp - 1);
  }
  return worst;
}

}  // namespace autocfg
