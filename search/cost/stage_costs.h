// The costs of a stage as the sum of those of its blocks. Plain values; pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/cost/timing/pipeline_costs.h"
#include "search/cost/unit_overlap.h"
#include "search/plan/parallel_plan.h"

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

// The costs of the blocks of a model, of which those of a stage are the sum.
struct BlockCosts {
  StageCosts layer;    // a layer that does not recompute
  StageCosts weights;  // the weight gradients of a layer that delays them, which `layer` does not include
  // What a recomputing layer adds to its backward. Where backwards are split: its weight gradients too.
  StageCosts recompute;
  StageCosts embedding;
  StageCosts positions;  // learned ones
  StageCosts head;
  StageCosts arrival;  // of a message: in the forward of all stages but the first, in the backward of all but
                       // the last
  UnitCosts units;     // not part of the other costs
};

// Returns the costs of a stage of `layers` layers under the plan, if the host issues an op in `host_op_s`
// seconds.
StageCosts CostsOfStage(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers, bool first,
                        bool last, double host_op_s);

// The same in two steps, for stages that differ in the number of recomputed layers alone: the sum of what
// does not depend on it, and the costs. Where units are gathered and reduced in computes (ShardsGradients),
// the result is a lower bound of the times: of forward and backward, of all microbatches together, and of the
// first one. Both take the same time for any number of layers.
StageCosts SumWithoutRecompute(const BlockCosts& blocks, std::int64_t layers, bool first, bool last);
StageCosts CostsAtLeast(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers, bool first,
                        bool last, const StageCosts& without_recompute, double host_op_s);

// Returns the blocks of a stage's backward in order, or of its input gradients where backwards are split: the
// arrival of a gradient, if there is one, and one for each unit, with the seconds of their collectives.
// `first_microbatch`: it writes gradients that others add to.
std::vector<UnitSeconds> BackwardBlocks(const BlockCosts& blocks, const ParallelPlan& plan,
                                        std::int64_t layers, bool first, bool last, bool first_microbatch);
// The same of the weight gradients that are delayed.
std::vector<UnitSeconds> WeightBlocks(const BlockCosts& blocks, const ParallelPlan& plan, std::int64_t layers,
                                      bool first_microbatch);

}  // namespace autocfg
