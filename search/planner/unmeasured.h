// Estimates the extra cost of an exhaustive search. Pure, except that the cost model's caches grow.
#pragma once

#include "search/planner/search_state.h"

namespace autocfg {

// See SearchLoop::UnmeasuredDeviceSeconds.
double UnmeasuredDeviceSeconds(const SearchState& s);

}  // namespace autocfg
