// Ranks the plans of a search by what is known so far, best first. Pure, except that the cost model's caches
// grow.
#pragma once

#include <cstddef>
#include <vector>

#include "search/planner/search_loop.h"
#include "search/planner/search_state.h"

namespace autocfg {

// See SearchLoop::Ranking.
std::vector<RankedPlan> RankPlans(const SearchState& s, std::size_t limit);

}  // namespace autocfg
