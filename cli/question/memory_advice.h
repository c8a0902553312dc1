// What to change in a plan that takes too much memory. Pure, thread-safe.
#pragma once

#include <string>

#include "search/cost/memory/memory_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg::cli {

// Returns "activations take 56.0 GiB; use a smaller mbs, recompute=full or more ranks": the largest region
// of the arena, and what lowers it that the plan does not have yet. More ranks always do.
std::string MemoryAdvice(const ParallelPlan& plan, const MemoryBytes& memory);

}  // namespace autocfg::cli
