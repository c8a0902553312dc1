// Starts a trainer process. Thread-safe: runs no code between fork and exec; the child inherits only the
// named descriptors.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/os/unique_fd.h"

namespace autocfg::worker {

// A started rank. Destroying this object neither ends nor reaps the process.
struct SpawnedRank {
  pid_t pid = -1;
  base::UniqueFd socket;  // blocking; both directions
  base::UniqueFd log;     // non-blocking; the rank's standard error
};

// Runs `path --launcher-fd=3 [--cpu-list=0,1,...]`. The child gets its end of a socket pair as descriptor 3,
// /dev/null as standard input and output, a pipe as standard error, default signal handlers and no blocked
// signals. The program pins itself to `cores`, because posix_spawn cannot; without cores, --cpu-list is
// omitted. It joins the process group `group`, which must have a member; 0: a new group. `environment`
// (NAME=value) extends this process's environment and overrides equal names. Returns NotFound,
// PermissionDenied or Unavailable, with the path, if it cannot start.
absl::StatusOr<SpawnedRank> SpawnRank(const std::string& path, const std::vector<int>& cores, pid_t group,
                                      const std::vector<std::string>& environment);

}  // namespace autocfg::worker
