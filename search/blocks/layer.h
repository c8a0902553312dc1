// One transformer layer on one microbatch: its ops, from its blocks (attention.h, feed_forward.h), and its
// bytes. docs/engine.md is the common specification with the trainer. Pure functions, thread-safe.
//
// All functions of this directory require a legal plan that CheckPredictable accepts, with a resolved split.
// `accumulate`: gradients of parameters are added to those of earlier microbatches; the first one writes
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "search/blocks/layer_kind.h"
#include "search/blocks/tensor_bytes.h"
#include "search/ops/op_desc.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/run_view.h"
#include "search/shapes/gradients.h"

namespace autocfg {

std::vector<OpDesc> LayerForwardOps(const RunView& run, const LayerKind& kind = {});

// What the backward of a recomputing layer runs first: under recompute=selective the parts that the plan
// names. Empty if the plan recomputes nothing. `whole_mlp`: in place of the part mlp, all of the feed-forward
// block, as engines do that run whole modules again.
std::vector<OpDesc> LayerRecomputeOps(const RunView& run, const LayerKind& kind = {}, bool whole_mlp = false);

// The whole backward, or one of its two parts, if the plan's schedule splits it: the gradient of the layer's
// input, then, in another action, those of its weights and biases, which do not depend on the kind.
std::vector<OpDesc> LayerBackwardOps(const RunView& run, bool accumulate, const LayerKind& kind = {},
                                     Gradients gradients = Gradients::kAll);

// Returns how many of a stage's `layers` layers issue LayerRecomputeOps; these are the first ones.
constexpr std::int64_t LayersWithRecomputeOps(const ParallelPlan& plan, std::int64_t layers) {
  return RecomputesScores(plan) || RecomputesInputs(plan) ? layers : FullyRecomputedLayers(plan, layers);
}

// Returns the bytes of a layer's tensors, without its input.
BlockBytes LayerBytes(const RunView& run, const TensorBytes& bytes);

}  // namespace autocfg
