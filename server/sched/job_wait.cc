#include "server/sched/job_wait.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace autocfg {
namespace {

// How long a caller that is gone may go unnoticed.
constexpr absl::Duration kLook = absl::Milliseconds(200);

}  // namespace

absl::StatusOr<std::optional<Lease>> WaitForJob(Store& store, Notifier& notifier, const Clock& clock,
                                                const JobWait& request) {
  const absl::Time deadline = absl::Now() + request.wait;
  bool look = true;
  while (true) {
    const std::uint64_t version = notifier.Version();
    if (notifier.closed() || (request.given_up && request.given_up())) return std::optional<Lease>();
    if (look) {
      const WorkerSession session{request.worker, request.session_epoch};
      if (absl::Status status = store.CheckSession(session); !status.ok()) return status;
      auto assignment = store.LeaseJobs({session}, {session}, clock(), request.lease_duration_s);
      if (!assignment.ok()) return assignment.status();
      if (!assignment->leases.empty()) return std::move(assignment->leases.front());
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return std::optional<Lease>();
    notifier.Wait(version, std::min(left, kLook));
    look = notifier.Version() != version;
  }
}

}  // namespace autocfg
