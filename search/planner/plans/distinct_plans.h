// Which plans of a ranking are worth showing beside the best: not ten neighbours of one. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "search/plan/parallel_plan.h"
#include "search/plan/plan_options.h"

namespace autocfg {

// Returns the number of options in which the plans differ. Those that only overlap communication count as
// one, whichever of them differ.
int OptionsApart(const ParallelPlan& a, const ParallelPlan& b, PlanOptionTable options = PlanOptions());

// Returns the places of at most `most` plans of a ranking, the first one always, in their order. At most two
// of them differ from an earlier one in one option only.
std::vector<std::size_t> DistinctPlans(std::span<const ParallelPlan> ranking, std::size_t most);

}  // namespace autocfg
