// The supervisor of a job (worker/supervisor/orders.h): starts the ranks that the launcher orders, reports
// their ends, and ends what they leave behind. It also looks at what the job's processes take, and kills them
// if that is above the job's limits. Use from one thread, in a program with no other.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>
#include <vector>

#include "base/os/unique_fd.h"
#include "worker/supervisor/orders.h"

namespace autocfg::worker {

class Supervisor {
 public:
  // `socket`: this end of the socket to the launcher.
  explicit Supervisor(base::UniqueFd socket) : socket_(std::move(socket)) {}

  // Makes this process a subreaper and follows orders until kFinish, or until the launcher is gone; then ends
  // all processes of the job. Returns an errno value if the system denies what it needs, else 0.
  int Run();

 private:
  struct Rank {
    pid_t pid = -1;
    bool ended = false;
  };

  // Receives and carries out one order. Returns false if no more will come.
  bool TakeOrder();
  // Returns the milliseconds until Look has something to do; -1: it has nothing to do.
  int UntilLook() const;
  void Look();
  void Start(std::string_view command, base::UniqueFd socket, base::UniqueFd log);
  void Signal(int signal);
  void ReportEnds();
  void ReapOrphans();
  bool IsRank(pid_t pid) const;
  void WaitForChild();
  void Finish();
  void Send(const Report& report);

  base::UniqueFd socket_;
  base::UniqueFd signals_;   // of ended children
  std::vector<Rank> ranks_;  // none is reaped before the end, so the first one's process group stays valid
  bool killed_ = false;      // the launcher has ordered SIGKILL, or the job is over a limit
  JobLimits limits_;         // as long as they are watched
  std::chrono::steady_clock::time_point next_look_;
};

}  // namespace autocfg::worker
