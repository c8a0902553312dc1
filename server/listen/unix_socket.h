// The socket file of a server on a Unix socket. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace autocfg::server {

// Removes a socket at `path` that nobody listens on. InvalidArgument: the path is empty or too long for a
// socket. FailedPrecondition: a server listens there, or the file is not a socket or belongs to another user.
// NotFound: the directory does not exist.
absl::Status ClearSocketPath(const std::string& path);

// Restricts access to the owner (mode 0600).
absl::Status CloseToOthers(const std::string& path);

}  // namespace autocfg::server
