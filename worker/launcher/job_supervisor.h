// The launcher's side of a job's supervisor (worker/supervisor/orders.h): the process that is the parent of
// the job's ranks and ends all that they leave behind. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/os/unique_fd.h"
#include "worker/supervisor/orders.h"

namespace autocfg::worker {

class JobSupervisor {
 public:
  JobSupervisor() = default;
  ~JobSupervisor();  // calls Finish()
  JobSupervisor(const JobSupervisor&) = delete;
  JobSupervisor& operator=(const JobSupervisor&) = delete;

  // Starts the program at `path`. NotFound, PermissionDenied or Unavailable, with the path, if it cannot
  // start. `limits`: of what the job's processes take; see over_limit.
  absl::Status Start(const std::string& path, const JobLimits& limits = {});

  // Starts the next rank, with its ends of socket and log. Returns its pid. NotFound, PermissionDenied or
  // Unavailable, with the program's path, if it cannot start.
  absl::StatusOr<pid_t> StartRank(const RankCommand& command, const base::UniqueFd& socket,
                                  const base::UniqueFd& log);

  int fd() const { return socket_.get(); }  // for poll; -1 if it does not run

  struct RankExit {
    std::size_t place = 0;  // in the order of starting
    int wait_status = 0;    // as from waitpid
  };
  // Returns the ranks that have ended since the last call. They stay zombies until Finish.
  std::vector<RankExit> TakeExits();
  // True if the supervisor ended unexpectedly. Then its ranks have been killed, and what they left behind may
  // still run.
  bool lost() const { return lost_; }
  // What the job took above its limits, as one line: its processes got SIGKILL for it. Empty: nothing.
  const std::string& over_limit() const { return over_limit_; }

  // Sends SIGTERM or SIGKILL to the ranks, to the other processes of their group, and to those that they left
  // behind in other groups.
  void Terminate() { Tell(Order::kTerminate); }
  void Kill() { Tell(Order::kKill); }

  // Ends what the ranks left behind and reaps all, within kOrphanTerminateLimit + kOrphanKillLimit and some
  // time for the supervisor itself. Logs what had to be ended and what has not ended. Idempotent. Requires
  // that the ranks have ended.
  void Finish();

 private:
  void Tell(Order order);
  void Receive();
  // Waits until a report of `one` or `other` arrives. Returns nullopt if the supervisor ends first or does
  // not answer within `limit`.
  std::optional<Report> Await(Report::Kind one, Report::Kind other, std::chrono::seconds limit);

  pid_t pid_ = -1;
  base::UniqueFd socket_;
  bool lost_ = false;
  JobLimits limits_;
  std::string over_limit_;
  std::vector<RankExit> exits_;   // not taken yet
  std::optional<Report> answer_;  // the last one of another kind than kEnded
};

}  // namespace autocfg::worker
