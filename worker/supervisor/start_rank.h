// Starts a rank as a child of the supervisor. Use from one thread, in a program with no other.
#pragma once

#include <sys/types.h>

#include "base/os/unique_fd.h"
#include "worker/supervisor/orders.h"

namespace autocfg::worker {

struct StartedRank {
  pid_t pid = -1;
  int error = 0;  // errno if the program could not be started; then there is no process
};

// Starts the program with `socket` as descriptor kRankSocket, `log` as standard error, this process's
// standard input and output, default signal handlers and no blocked signals. A foreign program has `log` as
// its standard output too and no socket. It inherits no other descriptor,
// provided that all others are close-on-exec. It writes no core, unless it raises its own limit: cores of
// ranks are as large as their memory, and hold the data that they train on. It joins the process group
// `group`, which must have a member; 0: a new group. SIGKILL ends it if this process dies first.
StartedRank StartRank(const RankCommand& command, pid_t group, const base::UniqueFd& socket,
                      const base::UniqueFd& log);

}  // namespace autocfg::worker
