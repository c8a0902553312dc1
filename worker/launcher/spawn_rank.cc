#include "worker/launcher/spawn_rank.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/os/cpus.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "worker/launcher/spawn.h"

namespace autocfg::worker {

absl::StatusOr<SpawnedRank> SpawnRank(JobSupervisor& supervisor, const std::string& path,
                                      const std::vector<int>& cores,
                                      const std::vector<std::string>& environment) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return SystemError("cannot make a socket pair for a rank", errno);
  }
  SpawnedRank rank;
  rank.socket = base::UniqueFd(pair[0]);
  const base::UniqueFd child_socket(pair[1]);
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return SystemError("cannot make a pipe for a rank's messages", errno);
  rank.log = base::UniqueFd(pipe[0]);
  const base::UniqueFd child_log(pipe[1]);
  if (::fcntl(rank.log.get(), F_SETFL, O_NONBLOCK) != 0)
    return SystemError("cannot prepare a rank's descriptors", errno);

  RankCommand command{{path, fmt::format("--launcher-fd={}", kRankSocket)}, environment};
  if (!cores.empty()) command.arguments.push_back("--cpu-list=" + base::CpuListText(cores));
  AUTOCFG_ASSIGN_OR_RETURN(rank.pid, supervisor.StartRank(command, child_socket, child_log));
  return rank;
}

}  // namespace autocfg::worker
