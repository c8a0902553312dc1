// How many activation slots a stage needs, in closed form. Pure, thread-safe.
#pragma once

#include <cstdint>

#include "search/plan/parallel_plan.h"

namespace autocfg {

// The most microbatches in flight on a stage of the model at any time: what MaxInFlight counts in
// MakeComputeOrder's order, without making it. Requires what MakeComputeOrder does (throws std::logic_error
// for a schedule without a generator) and 0 <= stage < StageCount(plan).
std::int64_t InFlight(const ParallelPlan& plan, std::int64_t microbatches, std::int64_t stage);

}  // namespace autocfg
