// 1F1B, also called PipeDream-Flush (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on
// GPU Clusters", section 2.2.1): a stage runs as many forwards ahead as there are stages after it, then one
// forward and one backward in turn, then the backwards that are left. At most `stages - stage` microbatches
// are in flight. Pure, thread-safe.
#pragma once

#include "search/schedule/compute_order.h"

namespace autocfg {

// Requires 0 <= stage < stages, microbatches > 0.
ComputeLoops OneFOneBOrder(std::int32_t stage, std::int32_t stages, std::int64_t microbatches);

}  // namespace autocfg
