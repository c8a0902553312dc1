// Starts the supervisor of a job, and what that shares with the start of a rank. Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/os/unique_fd.h"

namespace autocfg::worker {

// Runs the program at `path` with `socket` as descriptor kSupervisorSocket, /dev/null as standard input and
// output, this program's standard error, default signal handlers, no blocked signals and a process group of
// its own. It inherits no other descriptor, and no code of this program runs between fork and exec. Returns
// its pid, or SystemError if it cannot start. Requires a socket from AboveStandard.
absl::StatusOr<pid_t> Spawn(const std::string& path, int socket);

// Duplicates `fd` above the descriptors that a child gets, even if this program's standard descriptors are
// closed. Returns an empty one, with errno set, if that fails.
base::UniqueFd AboveStandard(base::UniqueFd fd);

// Returns "what: description" of an errno value. NotFound if the file does not exist, PermissionDenied if it
// is not a program that this user may start, else Unavailable.
absl::Status SystemError(const std::string& what, int error);

}  // namespace autocfg::worker
