// Where the database is when nobody says so. Reads the environment; thread-safe as long as nobody changes
// that.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace autocfg {

// `option` (--db) where it is not empty, else $XDG_STATE_HOME/autocfg/autocfg.db, else
// ~/.local/state/autocfg/autocfg.db. FailedPrecondition where there is no home either.
absl::StatusOr<std::string> DatabasePath(const std::string& option);

}  // namespace autocfg
