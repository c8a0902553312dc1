// The stages of the model: contiguous runs of layers, each tp ranks wide. A pipeline of `pp` ranks with
// `virtual_stages` each has pp x virtual_stages stages. Pipeline rank s owns stages s, s + pp, s + 2 pp, ...
// (Narayanan et al. 2021, section 2.2.2), its "chunks" 0, 1, 2, .... Pure functions, thread-safe. All require
// a legal plan; functions that return layers require a split other than auto.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

constexpr std::int64_t StageCount(const ParallelPlan& plan) { return plan.pp * plan.virtual_stages; }

// Returns the microbatches per step on one data-parallel rank.
constexpr std::int64_t MicrobatchCount(const Workload& workload, const ParallelPlan& plan) {
  return workload.global_batch / (BatchRanks(plan) * plan.micro_batch);
}

// Converts between a stage and the chunk of a pipeline rank.
constexpr std::int64_t StageOf(const ParallelPlan& plan, std::int64_t pipeline_rank, std::int64_t chunk) {
  return chunk * plan.pp + pipeline_rank;
}
constexpr std::int64_t PipelineRankOf(const ParallelPlan& plan, std::int64_t stage) {
  return stage % plan.pp;
}
constexpr std::int64_t ChunkOf(const ParallelPlan& plan, std::int64_t stage) { return stage / plan.pp; }

// The embedding precedes the layers of the first stage. The final norm and the output layer follow those of
// the last stage.
constexpr bool IsFirstStage(std::int64_t stage) { return stage == 0; }
constexpr bool IsLastStage(const ParallelPlan& plan, std::int64_t stage) {
  return stage == StageCount(plan) - 1;
}

// The position of a pipeline rank: "the first rank" holds stage 0, "the last rank" the last stage.
struct RankPlace {
  bool first = false;
  bool last = false;
};
constexpr RankPlace PlaceOf(const ParallelPlan& plan, std::int64_t pipeline_rank) {
  return {pipeline_rank == 0, pipeline_rank == plan.pp - 1};
}

// Returns whether the one rank of the pipeline writes the gradient of a tied embedding twice in each
// backward: first the head, then the embedding, which adds to what the head wrote.
constexpr bool EmbeddingAddsToHead(const ModelSpec& model, const ParallelPlan& plan) {
  return model.tied_embeddings && plan.pp == 1;
}

// Returns the number of layers of one stage of the model, in constant time.
constexpr std::int64_t StageLayerCount(const ModelSpec& model, const ParallelPlan& plan, std::int64_t stage) {
  if (plan.split == SplitMode::kExplicit) return plan.split_layers[static_cast<std::size_t>(stage)];
  return model.layers / StageCount(plan);
}

// Layers [first, first + count) of the model.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t count = 0;

  bool operator==(const LayerRange&) const = default;
};
LayerRange StageLayers(const ModelSpec& model, const ParallelPlan& plan, std::int64_t stage);

// Returns the number of layers in all stages of a pipeline rank.
std::int64_t RankLayers(const ModelSpec& model, const ParallelPlan& plan, std::int64_t pipeline_rank);

// Returns whether each stage of a pipeline rank but the first has as many layers as that of the same chunk of
// the rank before. Such ranks between the first and the last are equal.
constexpr bool HasLayersOfRankBefore(const ParallelPlan& plan, std::int64_t rank) {
  if (plan.split != SplitMode::kExplicit) return true;
  for (std::int64_t chunk = 0; chunk < plan.virtual_stages; ++chunk) {
    const auto stage = static_cast<std::size_t>(StageOf(plan, rank, chunk));
    if (plan.split_layers[stage] != plan.split_layers[stage - 1]) return false;
  }
  return true;
}

// Returns how many of a stage's `layers` layers repeat their forward in the backward. None unless recompute
// is full; then the first recompute_layers of them (0: all).
constexpr std::int64_t FullyRecomputedLayers(const ParallelPlan& plan, std::int64_t layers) {
  if (plan.recompute != Recompute::kFull) return 0;
  return plan.recompute_layers == 0 || plan.recompute_layers > layers ? layers : plan.recompute_layers;
}

// Returns how many of a stage's `layers` layers leave their weight gradients to an action of their own. None
// unless the schedule splits backwards; then the last ones, those that do not repeat their forward. None if
// layers recompute what weight gradients read.
constexpr std::int64_t LayersWithDelayedGradients(const ParallelPlan& plan, std::int64_t layers) {
  return SplitsBackward(plan) && !RecomputesInputs(plan) ? layers - FullyRecomputedLayers(plan, layers) : 0;
}

// Returns whether stages of so many layers are all alike.
constexpr bool AllEqual(const std::vector<std::int64_t>& layers) {
  return std::ranges::all_of(layers, [&](std::int64_t each) { return each == layers.front(); });
}

}  // namespace autocfg
