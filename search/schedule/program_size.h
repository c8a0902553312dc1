// How large a program may be. Pure, thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// Microbatches x ranks x virtual stages of one program. Each makes about six actions of some 80 bytes, and
// each rank holds the whole program: 125 MB a rank at the bound.
inline constexpr std::int64_t kMaxProgramMicrobatches = std::int64_t{1} << 18;

// InvalidArgument, with the figures, where the plan's program is larger than that. To be asked before Lower.
// Requires a legal plan.
absl::Status CheckProgramSize(const Workload& workload, const ParallelPlan& plan);

}  // namespace autocfg
