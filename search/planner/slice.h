// Slices: one rank of a plan that is larger than the machine, run alone with peers that are not there (its
// collectives leave its own data in place). What it times is the rank's own work, without messages and
// bubbles. Pure; the cost model's caches grow.
#pragma once

#include <cstdint>

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// The coordinates of the rank that is run; its data coordinate is 0.
struct SliceRank {
  std::int64_t tensor = 0;
  std::int64_t pipeline = 0;

  bool operator==(const SliceRank&) const = default;
};

// The rank whose own compute takes longest, the first of them. Requires a legal plan with a definite split.
SliceRank ChooseSlice(CostModel& costs, const ParallelPlan& plan);

// Seconds of a step of that rank alone: forward and backward of all its microbatches and stages without
// messages, zeroing the gradients, their norm, the update.
double SliceSeconds(CostModel& costs, const ParallelPlan& plan, std::int64_t pipeline_rank);

}  // namespace autocfg
