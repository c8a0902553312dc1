// The stages of the model: contiguous runs of layers, tp ranks wide. A pipeline of `pp` ranks with
// `virtual_stages` of them each has pp x virtual_stages stages; rank s of the pipeline owns stages s, s + pp,
// s + 2 pp, ... (Narayanan et al. 2021, section 2.2.2), its "chunks" 0, 1, 2, .... Pure functions,
// thread-safe. All require a legal plan; where layers are asked for, one without split=auto.
#pragma once

#include <cstdint>

#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

constexpr std::int64_t StageCount(const ParallelPlan& plan) { return plan.pp * plan.virtual_stages; }

// The stage that is chunk `chunk` of a pipeline rank, and back.
constexpr std::int64_t StageOf(const ParallelPlan& plan, std::int64_t pipeline_rank, std::int64_t chunk) {
  return chunk * plan.pp + pipeline_rank;
}
constexpr std::int64_t PipelineRankOf(const ParallelPlan& plan, std::int64_t stage) {
  return stage % plan.pp;
}
constexpr std::int64_t ChunkOf(const ParallelPlan& plan, std::int64_t stage) { return stage / plan.pp; }

// The embedding stands before the layers of the first stage, final norm and output layer after those of the
// last one.
constexpr bool IsFirstStage(std::int64_t stage) { return stage == 0; }
constexpr bool IsLastStage(const ParallelPlan& plan, std::int64_t stage) {
  return stage == StageCount(plan) - 1;
}

// Layers [first, first + count) of the model.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
LayerRange StageLayers(const ModelSpec& model, const ParallelPlan& plan, std::int64_t stage);

// Layers of all stages of a pipeline rank.
std::int64_t RankLayers(const ModelSpec& model, const ParallelPlan& plan, std::int64_t pipeline_rank);

// How many layers of a stage of `layers` run their forward again in the backward: none unless recompute is
// full; then the first recompute_layers of them (0: all).
constexpr std::int64_t RecomputedLayers(const ParallelPlan& plan, std::int64_t layers) {
  if (plan.recompute != Recompute::kFull) return 0;
  return plan.recompute_layers == 0 || plan.recompute_layers > layers ? layers : plan.recompute_layers;
}

}  // namespace autocfg
