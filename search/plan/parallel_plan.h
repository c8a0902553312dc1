// A plan: every choice that makes a run. Plain values. plan_options.h describes each option; text form:
// plan_text.h; JSON: search/text/plan_json.h.
//
// A plan is the sum of the groups below. Caches use groups as keys: a field added to a group is part of every
// key that depends on the group.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/plan/layer_parts/layer_parts.h"
#include "search/plan/mesh.h"

namespace autocfg {

enum class Schedule : std::uint8_t { kGPipe, kOneFOneB, kInterleaved, kZeroBubbleH1 };
inline constexpr std::size_t kScheduleCount = static_cast<std::size_t>(Schedule::kZeroBubbleH1) + 1;
enum class Recompute : std::uint8_t { kNone, kSelective, kFull };
inline constexpr std::size_t kRecomputeCount = static_cast<std::size_t>(Recompute::kFull) + 1;
enum class Attention : std::uint8_t { kFused, kUnfused };
inline constexpr std::size_t kAttentionCount = static_cast<std::size_t>(Attention::kUnfused) + 1;
enum class SplitMode : std::uint8_t { kEven, kAuto, kExplicit };

// Whether a rank has several stages (vpp) under this schedule. Others give each rank one.
constexpr bool TakesVirtualStages(Schedule schedule) {
  switch (schedule) {
    case Schedule::kGPipe:
    case Schedule::kOneFOneB:
    case Schedule::kZeroBubbleH1: return false;
    case Schedule::kInterleaved: return true;
  }
  return false;
}

// Whether a backward is two actions under this schedule: one computes the gradient of the stage's input, a
// later one those of its weights.
constexpr bool SplitsBackward(Schedule schedule) {
  switch (schedule) {
    case Schedule::kGPipe:
    case Schedule::kOneFOneB:
    case Schedule::kInterleaved: return false;
    case Schedule::kZeroBubbleH1: return true;
  }
  return false;
}

// The schedule of a plan that names none.
constexpr Schedule DefaultSchedule(std::int64_t virtual_stages) {
  return virtual_stages > 1 ? Schedule::kInterleaved : Schedule::kOneFOneB;
}

// What the ops of a layer depend on, besides the mesh: their number, sizes and kinds.
struct LayerOptions {
  std::int64_t micro_batch = 1;
  Recompute recompute = Recompute::kNone;
  LayerParts recompute_parts = {LayerPart::kCoreAttention};  // Recompute::kSelective: of every layer
  Attention attention = Attention::kFused;
  bool sequence_parallel = false;
  std::int64_t tp_overlap = 1;

  auto operator<=>(const LayerOptions&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

// Which layers a stage has, and in which order its microbatches run.
struct StageOptions {
  std::int64_t virtual_stages = 1;
  Schedule schedule = Schedule::kOneFOneB;
  SplitMode split = SplitMode::kEven;
  std::vector<std::int64_t> split_layers = {};  // layers per stage; kExplicit only
  std::int64_t recompute_layers = 0;  // Recompute::kFull: the first K layers of every virtual stage; 0 = all

  auto operator<=>(const StageOptions&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

// How stages send to each other.
struct MessageOptions {
  bool p2p_overlap = false;
  bool scatter_gather = false;

  auto operator<=>(const MessageOptions&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

// How parameters, gradients and optimizer states are kept and reduced over the data axis.
struct StateOptions {
  std::int64_t zero_stage = 0;
  std::int64_t dp_shard = 0;  // ranks that a state is sharded over; 0: all of the data axis
  bool grad_overlap = false;
  bool param_overlap = false;

  auto operator<=>(const StateOptions&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

struct ParallelPlan : MeshOptions, LayerOptions, StageOptions, MessageOptions, StateOptions {
  ParallelPlan() = default;
  // By group: ParallelPlan{{.tp = 2, .pp = 4}, {.micro_batch = 8}}.
  ParallelPlan(const MeshOptions& mesh, const LayerOptions& layer = {}, const StageOptions& stage = {},
               const MessageOptions& messages = {}, const StateOptions& states = {})
      : MeshOptions(mesh),
        LayerOptions(layer),
        StageOptions(stage),
        MessageOptions(messages),
        StateOptions(states) {}

  auto operator<=>(const ParallelPlan&) const = default;  // NOLINT(modernize-use-nullptr): false positive

  const MeshOptions& mesh() const { return *this; }
  const LayerOptions& layer() const { return *this; }
  const StageOptions& stage() const { return *this; }
  const MessageOptions& messages() const { return *this; }
  const StateOptions& states() const { return *this; }
};

// These return false for options without effect.
constexpr bool IsUnfused(const LayerOptions& layer) { return layer.attention == Attention::kUnfused; }
constexpr bool RecomputesPart(const LayerOptions& layer, LayerPart part) {
  return layer.recompute == Recompute::kSelective && layer.recompute_parts.Has(part) &&
         (part != LayerPart::kCoreAttention || IsUnfused(layer));
}
constexpr bool RecomputesScores(const LayerOptions& layer) {
  return RecomputesPart(layer, LayerPart::kCoreAttention);
}
// Whether recompute=selective computes inputs of weights again: gradients of weights need them, which are
// therefore not delayed.
constexpr bool RecomputesInputs(const LayerOptions& layer) {
  return RecomputesPart(layer, LayerPart::kMlp) || RecomputesPart(layer, LayerPart::kActivation) ||
         RecomputesPart(layer, LayerPart::kNorm);
}
constexpr bool SplitsSequence(const ParallelPlan& plan) {
  return plan.sequence_parallel && SplitsLayers(plan);
}
// The ranks that share the states of one replica: 1 if each rank keeps all of its states. placement.h says
// which states are shared.
constexpr std::int64_t StateShards(const ParallelPlan& plan) {
  if (plan.zero_stage == 0) return 1;
  return plan.dp_shard == 0 ? BatchRanks(plan) : plan.dp_shard;
}
constexpr bool ShardsStates(const ParallelPlan& plan) { return StateShards(plan) > 1; }
// Whether the backward of a microbatch follows its own forward, so that the output layer is still gathered.
constexpr bool KeepsGatheredHead(const ParallelPlan& plan) { return plan.schedule != Schedule::kGPipe; }
// The groups of ranks that hold the same states, which they sum gradients over.
constexpr std::int64_t StateReplicas(const ParallelPlan& plan) {
  return BatchRanks(plan) / StateShards(plan);
}
// Gradients are reduced, and parameters gathered, unit by unit while the rank computes.
constexpr bool OverlapsGradients(const ParallelPlan& plan) {
  return plan.grad_overlap && BatchRanks(plan) > 1;
}
constexpr bool OverlapsParameters(const ParallelPlan& plan) {
  return plan.param_overlap && ShardsStates(plan);
}
// Of the parameters that a rank keeps whole, the other ranks' parts are gathered right after the update. If
// not, the next step gathers them, before it reads them.
constexpr bool GathersAfterUpdate(const ParallelPlan& plan) {
  return ShardsStates(plan) && !OverlapsParameters(plan);
}
constexpr bool SplitsBackward(const ParallelPlan& plan) {
  return SplitsDepth(plan) && SplitsBackward(plan.schedule);
}
// The chunks of a product whose sums over the tensor group overlap it; 1: they do not.
constexpr std::int64_t TensorChunks(const ParallelPlan& plan) {
  return SplitsLayers(plan) ? plan.tp_overlap : 1;
}
constexpr bool OverlapsMessages(const ParallelPlan& plan) { return plan.p2p_overlap && SplitsDepth(plan); }
constexpr bool ScattersMessages(const ParallelPlan& plan) {
  return plan.scatter_gather && SplitsLayers(plan) && SplitsDepth(plan) && !plan.sequence_parallel;
}

}  // namespace autocfg
