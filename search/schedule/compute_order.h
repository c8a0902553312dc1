// The order in which a rank of the pipeline runs the forwards and backwards of its stages, or the parts of
// backwards. Each schedule has a generator (generators.h). Pure, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/action.h"
#include "search/schedule/action_kinds.h"

namespace autocfg {

// Returns whether gradients of norms are summed over the tensor group: under sequence parallelism, where a
// rank computes them from its own tokens, or if norms of queries and keys are of its own heads.
inline bool SumsNormGradients(const ModelSpec& model, const ParallelPlan& plan) {
  return SplitsSequence(plan) || (model.qk_norm == QkNorm::kHead && SplitsLayers(plan));
}

// Returns whether gradients are summed over the ranks that split the batch, or over those that share
// key-value heads.
inline bool ReducesGradients(const ModelSpec& model, const ParallelPlan& plan) {
  return BatchRanks(plan) > 1 || KvReplicas(model, plan) > 1;
}

// All of a plan that determines the actions of its pipeline and their order, and so the key of what is
// derived from them. Code that lowers a pipeline gets this in place of a plan, so that nothing else can
// matter.
struct PipelineShape {
  PipelineShape(const ModelSpec& model, const ParallelPlan& plan, std::int64_t microbatch_count)
      : PipelineShape(plan, microbatch_count, model.tied_embeddings) {
    sums_norm_gradients = SumsNormGradients(model, plan);
    reduces_gradients = ReducesGradients(model, plan);
  }
  // For models without norms of single heads, and plans whose ranks share no key-value heads.
  PipelineShape(const ParallelPlan& plan, std::int64_t microbatch_count, bool ties_embeddings)
      : schedule(plan.schedule),
        ranks(plan.pp),
        virtual_stages(plan.virtual_stages),
        microbatches(microbatch_count),
        sums_norm_gradients(SplitsSequence(plan)),
        reduces_gradients(BatchRanks(plan) > 1),
        gathers_parameters(GathersAfterUpdate(plan)),
        tied_embeddings(ties_embeddings),
        overlaps_messages(OverlapsMessages(plan)) {}

  Schedule schedule;
  std::int64_t ranks;           // of the pipeline
  std::int64_t virtual_stages;  // of each rank
  std::int64_t microbatches;
  bool sums_norm_gradients;  // over a tensor group
  bool reduces_gradients;    // over the ranks that split the batch, or that share key-value heads
  bool gathers_parameters;   // after the update, of which each rank has made its part
  bool tied_embeddings;
  bool overlaps_messages;  // receives are issued one compute earlier

  std::int64_t stages() const { return ranks * virtual_stages; }

  bool operator==(const PipelineShape&) const = default;
};

// Returns how many buffers a rank of the pipeline has for gradients, which its backwards use in turn: two, or
// three where a gradient may arrive one compute earlier. A rank that has no stage but the model's last one
// receives no gradient.
inline constexpr std::int64_t kMostGradientBuffers = 3;
inline std::int64_t GradientBuffers(const PipelineShape& shape, std::int64_t pipeline_rank) {
  const bool receives = shape.virtual_stages > 1 || pipeline_rank + 1 < shape.ranks;
  return shape.overlaps_messages && receives ? kMostGradientBuffers : 2;
}

// A forward or backward of a stage of the model (search/plan/model_stages.h), or a part of a backward.
struct StageCompute {
  ActionKind kind = ActionKind::kForward;
  std::int32_t stage = 0;
  bool writes_gradients = false;  // the first backward (or part) of its stage, which is that of microbatch 0

  bool operator==(const StageCompute&) const = default;
};

// Computes that a rank repeats in turn until it has run `count` of them.
struct ComputeLoop {
  std::vector<StageCompute> computes;
  std::int64_t count = 0;
};

// All computes of a rank, in order. The n-th forward of a stage is that of microbatch n, and so is its n-th
// backward, or the n-th of each part. The size depends on the pipeline, not on the number of microbatches.
using ComputeLoops = std::vector<ComputeLoop>;

// Returns the loops of the shape's schedule. The first backward of each stage is in a loop that runs once,
// because it takes another time than the others; so is each part of a split one. Requires the shape of a
// legal, canonical plan (throws std::logic_error otherwise).
ComputeLoops MakeComputeLoops(const PipelineShape& shape, std::int64_t pipeline_rank);

// Returns every compute of the loops, with its microbatch.
ComputeOrder Unroll(const ComputeLoops& loops);

// Returns Unroll(MakeComputeLoops(...)) of the plan with that many microbatches.
ComputeOrder MakeComputeOrder(const ParallelPlan& plan, int pipeline_rank, int microbatches);

// Returns whether the action is the last compute of its rank: of its first stage and the last of
// `microbatches`. With grad_overlap it issues the reductions of gradients.
inline bool IsLastCompute(const ParallelPlan& plan, std::int64_t microbatches, const Action& action) {
  return FreesSlot(action.kind) && action.stage >= 0 && action.stage < plan.pp &&
         action.microbatch + 1 == microbatches;
}

// Returns the largest number of microbatches whose forward on this stage has run and whose backward, with all
// its parts, has not, at any time: the activation slots that the stage needs, unless receives take slots
// earlier (ActivationSlots in program.h).
int MaxInFlight(const ComputeOrder& order, int stage);

}  // namespace autocfg
