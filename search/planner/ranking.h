// What a search has found so far, best first. Pure; the cost model's caches grow.
#pragma once

#include <cstddef>
#include <vector>

#include "search/planner/search_loop.h"
#include "search/planner/search_state.h"

namespace autocfg {

// As SearchLoop::Ranking says.
std::vector<RankedPlan> RankPlans(const SearchState& s, std::size_t limit);

}  // namespace autocfg
