// Starts a trainer process. Thread-safe: nothing runs between fork and exec, and no descriptor but the named
// ones is inherited.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/os/unique_fd.h"

namespace autocfg {

// What a started rank looks like from its launcher. The process is not ended, nor reaped, by destroying this.
struct SpawnedRank {
  pid_t pid = -1;
  UniqueFd socket;  // blocking; both directions
  UniqueFd log;     // non-blocking; what the rank writes to standard error
};

// Runs `path --launcher-fd=3 [--cpu-list=0,1,...]` with its end of a socket pair as descriptor 3, standard
// input and output on /dev/null, standard error on a pipe, default signal handlers and no signal blocked. The
// program pins itself to `cores` (posix_spawn cannot); empty: no such argument. It joins the process group
// `group`, which must have a member; 0: a new group of its own. `environment` (NAME=value) is added to this
// process's, in place of what it has of the same names. NotFound, PermissionDenied or Unavailable,
// with the path, when it cannot be started.
absl::StatusOr<SpawnedRank> SpawnRank(const std::string& path, const std::vector<int>& cores, pid_t group,
                                      const std::vector<std::string>& environment);

}  // namespace autocfg
