// Starts a trainer process as a child of its job's supervisor. Not thread-safe for one supervisor.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/os/unique_fd.h"
#include "worker/launcher/job_supervisor.h"

namespace autocfg::worker {

// A started rank. Destroying this object does not end the process.
struct SpawnedRank {
  pid_t pid = -1;
  base::UniqueFd socket;  // blocking; both directions
  base::UniqueFd log;     // non-blocking; the rank's standard error
};

// Runs `path --launcher-fd=3 [--cpu-list=0,1,...]`. The child gets its end of a socket pair as descriptor 3,
// /dev/null as standard input and output, a pipe as standard error, default signal handlers and no blocked
// signals. The program pins itself to `cores`; without cores, --cpu-list is omitted. The first rank of a
// supervisor leads a new process group, which the others join. `environment` (NAME=value) extends this
// process's environment and overrides equal names. Returns NotFound, PermissionDenied or Unavailable, with
// the path, if it cannot start.
absl::StatusOr<SpawnedRank> SpawnRank(JobSupervisor& supervisor, const std::string& path,
                                      const std::vector<int>& cores,
                                      const std::vector<std::string>& environment);

}  // namespace autocfg::worker
