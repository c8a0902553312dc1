// The proof that a rank computes what it should, whatever the order in which its lanes get on. Pure.
#pragma once

#include "absl/status/status.h"
#include "search/schedule/rank_actions.h"

namespace autocfg {

// That `after` and the lanes alone, not the order of the list, put each action after what it reads and after
// the last user of the buffer that it writes. FailedPrecondition names the first pair for which they do not.
// Requires: actions.Find() is OK.
absl::Status CheckOrder(const RankActions& actions);

}  // namespace autocfg
