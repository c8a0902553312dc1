// GPipe (Huang et al. 2019): all forwards, then all backwards, so that every microbatch is in flight at once.
// Pure, thread-safe.
#pragma once

#include "search/schedule/compute_order.h"

namespace autocfg {

// Requires 0 <= stage < stages, microbatches > 0.
ComputeLoops GPipeOrder(std::int32_t stage, std::int32_t stages, std::int64_t microbatches);

}  // namespace autocfg
