// The costs of a stage as the sum of those of its blocks. Plain values; pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "search/cost/kinds_of_layers.h"
#include "search/cost/timing/pipeline_costs.h"
#include "search/cost/unit_overlap.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/run_view.h"

namespace autocfg {

// Seconds by unit (search/cost/memory/rank_units.h), without the norms; 0 where there is no such unit.
struct UnitTimes {
  double token_embedding = 0, positions = 0, layer = 0, output_layer = 0;
};

// What units cost that are gathered or reduced in computes (unit_ops.h).
struct UnitCosts {
  UnitTimes gather, reduce, add;
  bool hidden = false;    // collectives run beside computes
  double contention = 0;  // the share of their time that they take from those
};

// The costs of a layer of one kind.
struct LayerCosts {
  StageCosts layer;  // that does not recompute
  // What a recomputing layer adds to its backward. Where backwards are split: its weight gradients too.
  StageCosts recompute;
};

// The costs of the blocks of a model, of which those of a stage are the sum.
struct BlockCosts {
  absl::InlinedVector<LayerCosts, 1> layers;             // by the number of the kind
  std::shared_ptr<const KindsOfLayers> kinds = nullptr;  // null: all layers are of one kind
  StageCosts weights;  // the weight gradients of a layer that delays them, which `layers` do not include
  StageCosts embedding;
  StageCosts positions;  // learned ones
  StageCosts head;
  StageCosts arrival;  // of a message: in the forward of all stages but the first, in the backward of all but
                       // the last
  UnitCosts units;     // not part of the other costs

  // Returns those of a layer of the model, counted from 0.
  const LayerCosts& Of(std::int64_t layer) const { return layers[kinds ? kinds->Of(layer) : 0]; }
};

// Returns the layers of a stage. Where all layers are of one kind, only their count matters, and the first
// one counts as 0.
LayerRange LayersOf(const BlockCosts& blocks, const RunView& run, std::int64_t stage);

// Calls visit(costs, times) for runs of the layers that have the same costs.
template <typename Visit>
void ForEachRun(const BlockCosts& blocks, LayerRange layers, const Visit& visit) {
  if (!blocks.kinds) return visit(blocks.layers[0], static_cast<double>(layers.count));
  const std::int64_t end = layers.first + layers.count;
  for (std::int64_t first = layers.first, next = first; first < end; first = next) {
    const std::size_t kind = blocks.kinds->Of(first);
    while (next < end && blocks.kinds->Of(next) == kind) ++next;
    visit(blocks.layers[kind], static_cast<double>(next - first));
  }
}

// Returns the costs of a stage of these layers under the plan, if the host issues an op in `host_op_s`
// seconds.
StageCosts CostsOfStage(const BlockCosts& blocks, const ParallelPlan& plan, LayerRange layers, bool first,
                        bool last, double host_op_s);

// The same in two steps, for stages that differ in the number of recomputed layers alone: the sum of what
// does not depend on it, and the costs. Where units are gathered and reduced in computes (ShardsGradients),
// the result is a lower bound of the times: of forward and backward, of all microbatches together, and of the
// first one. Both take the same time for any number of layers of one kind.
StageCosts SumWithoutRecompute(const BlockCosts& blocks, LayerRange layers, bool first, bool last);
StageCosts CostsAtLeast(const BlockCosts& blocks, const ParallelPlan& plan, LayerRange layers, bool first,
                        bool last, const StageCosts& without_recompute, double host_op_s);

// Returns the blocks of a stage's backward in order, or of its input gradients where backwards are split: the
// arrival of a gradient, if there is one, and one for each unit, with the seconds of their collectives.
// `first_microbatch`: it writes gradients that others add to.
std::vector<UnitSeconds> BackwardBlocks(const BlockCosts& blocks, const ParallelPlan& plan, LayerRange layers,
                                        bool first, bool last, bool first_microbatch);
// The same of the weight gradients that are delayed.
std::vector<UnitSeconds> WeightBlocks(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers,
                                      bool first_microbatch);

}  // namespace autocfg
