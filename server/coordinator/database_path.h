// Default location of the database. Reads the environment; thread-safe unless the environment changes
// concurrently.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace autocfg::server {

// Returns `option` (--db) if not empty, else $XDG_STATE_HOME/autocfg/autocfg.db, else
// ~/.local/state/autocfg/autocfg.db. FailedPrecondition if there is no home directory either.
absl::StatusOr<std::string> DatabasePath(const std::string& option);

}  // namespace autocfg::server
