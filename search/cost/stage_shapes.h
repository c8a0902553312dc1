// Sizes shared by layer_ops and memory_model: the dims of docs/engine.md under a plan, and the parameter
// tensors of a pipeline rank. Pure, thread-safe. Requires a legal plan that CheckPredictable accepts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// The dims of docs/engine.md, by letter.
struct StepShapes {
  std::int64_t batch = 0;      // B, micro batch
  std::int64_t seq = 0;        // S
  std::int64_t tokens = 0;     // T = B * S
  std::int64_t hidden = 0;     // H
  std::int64_t heads = 0;      // N, local
  std::int64_t kv_heads = 0;   // G, local
  std::int64_t head_dim = 0;   // D
  std::int64_t attention = 0;  // A = N * D
  std::int64_t qkv = 0;        // Q = (N + 2G) * D
  std::int64_t ffn = 0;        // F, local
  std::int64_t fc = 0;         // W: F, or 2F if the activation is gated
  std::int64_t vocab = 0;      // V, padded and local
};
StepShapes ShapesOf(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan);

// The position of a pipeline rank: "the first rank" holds stage 0, "the last rank" the last stage.
struct RankPlace {
  bool first = false;
  bool last = false;
};
constexpr RankPlace PlaceOf(const ParallelPlan& plan, std::int64_t pipeline_rank) {
  return {pipeline_rank == 0, pipeline_rank == plan.pp - 1};
}

// Returns the layers of one stage of the model, in constant time (split=even or explicit).
constexpr std::int64_t StageLayerCount(const ModelSpec& model, const ParallelPlan& plan, std::int64_t stage) {
  if (plan.split == SplitMode::kExplicit) return plan.split_layers[static_cast<std::size_t>(stage)];
  return model.layers / StageCount(plan);
}

// These return false for options without effect.
constexpr bool IsUnfused(const ParallelPlan& plan) { return plan.attention == Attention::kUnfused; }
constexpr bool RecomputesScores(const ParallelPlan& plan) {
  return IsUnfused(plan) && plan.recompute == Recompute::kSelective;
}
constexpr bool ScattersMessages(const ParallelPlan& plan) {
  return plan.scatter_gather && plan.tp > 1 && plan.pp > 1;
}

// One parameter tensor: its elements on a rank, and whether all ranks of the tensor group hold the same
// values.
struct ParameterShape {
  std::int64_t elements = 0;
  bool replicated = false;
};

// A few tensors in order, without heap allocation.
class ParameterList {
 public:
  void Add(std::int64_t elements, bool replicated) { shapes_[count_++] = {elements, replicated}; }
  const ParameterShape* begin() const { return shapes_.data(); }
  const ParameterShape* end() const { return shapes_.data() + count_; }
  std::size_t size() const { return count_; }

 private:
  std::array<ParameterShape, 12> shapes_{};
  std::size_t count_ = 0;
};

// A rank's parameters in the order of docs/engine.md: before its layers, of each layer, after its layers.
// With several ranks, the last rank's copy of a tied table comes first of all.
ParameterList ParametersBeforeLayers(const StepShapes& shapes, const ModelSpec& model, RankPlace place);
ParameterList LayerParameters(const StepShapes& shapes, const ModelSpec& model);
ParameterList ParametersAfterLayers(const StepShapes& shapes, const ModelSpec& model, RankPlace place);

// Returns the bytes of the region with one tensor of `type` for each parameter of a rank that has `layers`
// layers in total.
std::int64_t ParameterRegionBytes(const StepShapes& shapes, const ModelSpec& model, RankPlace place,
                                  std::int64_t layers, DType type);

}  // namespace autocfg
