// The file of a Unix socket that a server listens on. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace autocfg {

// Makes room for a socket at `path`: one that nobody listens on any more is removed. InvalidArgument: a path
// that is empty or too long for a socket; FailedPrecondition: somebody listens there, or what is there is no
// socket or another user's; NotFound: no such directory.
absl::Status ClearSocketPath(const std::string& path);

// For its owner alone (mode 0600).
absl::Status CloseToOthers(const std::string& path);

}  // namespace autocfg
