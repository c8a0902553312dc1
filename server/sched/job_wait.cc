#include "server/sched/job_wait.h"

#include <algorithm>

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
      auto lease = store.LeaseJob(request.worker, request.session_epoch, clock(), request.lease_duration_s);
      if (!lease.ok() || lease->has_value()) return lease;
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return std::optional<Lease>();
    notifier.Wait(version, std::min(left, kLook));
    look = notifier.Version() != version;
  }
}

}  // namespace autocfg
