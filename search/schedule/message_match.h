// The proof that what two ranks send and receive matches in kind, number and order. Pure.
#pragma once

#include "absl/status/status.h"
#include "search/schedule/program.h"

namespace autocfg {

// FailedPrecondition names the first two that meet and should not. Requires lists whose actions are all there
// (rank_actions.h): with that the numbers match.
absl::Status CheckMatches(const Program& program);

}  // namespace autocfg
