// GPipe (Huang et al. 2019): all forwards, then all backwards, so that every microbatch is in flight at once.
// Pure, thread-safe.
#pragma once

#include "search/schedule/action.h"

namespace autocfg {

// Requires 0 <= stage < stages, microbatches > 0.
ComputeOrder GPipeOrder(int stage, int stages, int microbatches);

}  // namespace autocfg
