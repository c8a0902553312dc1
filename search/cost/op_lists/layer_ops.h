// Lists the ops of a layer, the embedding, the output layer and messages, in order, from model, workload and
// plan. action_ops.h makes the lists of actions of them, with the collectives of units (unit_ops.h).
// docs/engine.md is the common specification with the trainer. Pure functions, thread-safe.
//
// Requires a legal plan that CheckPredictable accepts, with a resolved split.
#pragma once

#include <cstdint>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/run_view.h"

namespace autocfg {

// What the ops of a layer depend on that differs between the layers of a model.
struct LayerKind {
  bool rotates = true;      // it has rotary positions, if the model has them
  std::int64_t window = 0;  // it attends to this sliding window; 0: to the whole sequence
  std::int64_t chunk = 0;   // it attends within chunks of so many tokens; 0: within the sequence

  auto operator<=>(const LayerKind&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

// Returns what the ops of a kind depend on. Kinds that are equal in sequences of `seq_len` tokens are equal.
LayerKind LayerKindOf(const LayerRun& kind, std::int64_t seq_len);

// Returns the kind of a layer, counted from 0.
LayerKind LayerKindOf(const RunView& run, std::int64_t layer);

// Ops of one transformer layer on one microbatch. LayerRecomputeOps lists what the backward of a recomputing
// layer runs first: under recompute=selective only the attention. It is empty if the plan recomputes nothing.
// `accumulate`: gradients of parameters are added to those of earlier microbatches; the first one writes
// them.
std::vector<OpDesc> LayerForwardOps(const RunView& run, const LayerKind& kind = {});
std::vector<OpDesc> LayerRecomputeOps(const RunView& run, const LayerKind& kind = {});
std::vector<OpDesc> LayerBackwardOps(const RunView& run, bool accumulate, const LayerKind& kind = {});

// Ops of the two parts of a layer's backward, if the plan's schedule splits it: the gradient of the layer's
// input, then, in another action, those of its weights and biases.
std::vector<OpDesc> LayerInputGradientOps(const RunView& run, bool accumulate, const LayerKind& kind = {});
std::vector<OpDesc> LayerWeightGradientOps(const RunView& run, bool accumulate);

// Returns how many of a stage's `layers` layers issue LayerRecomputeOps; these are the first ones.
constexpr std::int64_t LayersWithRecomputeOps(const ParallelPlan& plan, std::int64_t layers) {
  return RecomputesScores(plan) ? layers : FullyRecomputedLayers(plan, layers);
}

// Ops that a stage issues first when a message from another stage has arrived: in the forward of all stages
// but the first, in the backward of all but the last. Empty unless messages are scattered.
std::vector<OpDesc> ArrivalOps(const RunView& run);

// Ops that the first and the last stage issue in addition to their layers. Those of learned positions, empty
// in a model without, follow those of the embedding in the forward and precede them in the backward.
std::vector<OpDesc> EmbeddingForwardOps(const RunView& run);
std::vector<OpDesc> PositionForwardOps(const RunView& run);
std::vector<OpDesc> PositionBackwardOps(const RunView& run, bool accumulate);
std::vector<OpDesc> EmbeddingBackwardOps(const RunView& run, bool accumulate);
std::vector<OpDesc> HeadForwardOps(const RunView& run);
std::vector<OpDesc> HeadBackwardOps(const RunView& run, bool accumulate);

// Returns the one op that sends or receives a message between stages: kSend or kRecv.
std::vector<OpDesc> MessageOps(const RunView& run, OpKind kind);

}  // namespace autocfg
