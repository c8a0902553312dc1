// The plans that a search enumerates and rejects before it runs any, each with its reason: the illegal ones,
// and those that do not fit in memory. Pure, except that the cost model's caches grow.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/planner/planning.h"
#include "search/space/search_space.h"

namespace autocfg {

struct RejectedPlan {
  // With a definite split if it is legal. For a size that divides no layout of all ranks, the other sizes
  // are 1.
  ParallelPlan plan;
  std::string reason;  // a key of SearchCounts::rejected
  std::string detail;  // one sentence, with the figures
};

// Calls `visit` for each rejected plan, in the space's order, at most `most` times. Returns how many more
// there are, by reason. With the visited plans, these add up to the counts of FindFeasiblePlans under the
// same budget. Cancelled once `visit` or `watch` says no.
absl::StatusOr<std::map<std::string, std::int64_t>> ForEachRejected(
    const SearchSpace& space, CostModel& costs, const PlanningBudget& budget, std::int64_t most,
    const std::function<bool(const RejectedPlan&)>& visit, const PlanningWatch& watch = {});

}  // namespace autocfg
