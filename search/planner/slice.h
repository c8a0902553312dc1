// Slices: one rank of a plan that is larger than the machine, run alone without its peers (its collectives
// leave its own data in place). A slice times the rank's own work, without messages and bubbles. Pure, except
// that the cost model's caches grow.
#pragma once

#include <cstdint>

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/rank_mesh.h"

namespace autocfg {

// Returns the first rank with the longest compute time. Requires a legal plan with a definite split.
SliceCoordinates ChooseSlice(CostModel& costs, const ParallelPlan& plan);

// Returns the seconds of a step of that rank alone: forward and backward of all its microbatches and stages
// without messages, zeroing the gradients, their norm, and the update.
double SliceSeconds(CostModel& costs, const ParallelPlan& plan, std::int64_t pipeline_rank);

}  // namespace autocfg
