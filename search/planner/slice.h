// Slices: one rank of a plan that is larger than the machine, run alone without its peers (its collectives
// leave its own data in place). A slice times the rank's own work, without messages and bubbles. Pure, except
// that the cost model's caches grow.
#pragma once

#include <cstdint>

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// Coordinates of the rank that runs; its data coordinate is 0.
struct SliceRank {
  std::int64_t tensor = 0;
  std::int64_t pipeline = 0;

  bool operator==(const SliceRank&) const = default;
};

// Returns the first rank with the longest compute time. Requires a legal plan with a definite split.
SliceRank ChooseSlice(CostModel& costs, const ParallelPlan& plan);

// Returns the seconds of a step of that rank alone: forward and backward of all its microbatches and stages
// without messages, zeroing the gradients, their norm, and the update.
double SliceSeconds(CostModel& costs, const ParallelPlan& plan, std::int64_t pipeline_rank);

}  // namespace autocfg
