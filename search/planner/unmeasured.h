// What an exhaustive search would take beyond what a search took. Pure; the cost model's caches grow.
#pragma once

#include "search/planner/search_state.h"

namespace autocfg {

// As SearchLoop::UnmeasuredDeviceSeconds says.
double UnmeasuredDeviceSeconds(const SearchState& s);

}  // namespace autocfg
