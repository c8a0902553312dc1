// The long poll of LeaseWork: leases a job as soon as there is one. Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/clock.h"
#include "server/sched/notifier.h"
#include "server/store/store.h"

namespace autocfg {

struct JobWait {
  std::string worker;
  std::int64_t session_epoch = 0;
  absl::Duration wait;  // 0: look once
  double lease_duration_s = 0;
  std::function<bool()> given_up;  // the caller is gone: nothing is leased to it any more
};

// Empty when there was no job in time, the caller is gone, or the notifier is closed. Errors as
// Store::CheckSession's.
absl::StatusOr<std::optional<Lease>> WaitForJob(Store& store, Notifier& notifier, const Clock& clock,
                                                const JobWait& request);

}  // namespace autocfg
