#include "server/sched/lease_expiry.h"

#include <utility>

#include "spdlog/spdlog.h"

namespace autocfg::server {

LeaseExpiry::LeaseExpiry(Dispatcher& dispatcher, absl::Duration first, absl::Duration period)
    : dispatcher_(dispatcher), thread_([this, first, period] { Loop(first, period); }) {}

LeaseExpiry::~LeaseExpiry() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void LeaseExpiry::Loop(absl::Duration first, absl::Duration period) {
  absl::Duration wait = first;
  bool away = true;  // no coordinator ran when these leases expired
  bool failing = false;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), wait)) return;
    }
    wait = period;
    const absl::Status status = dispatcher_.ExpireLeases(away);
    if (status.ok()) {
      away = false;
      if (std::exchange(failing, false)) spdlog::info("lease expiry works again");
    } else if (!std::exchange(failing, true)) {
      spdlog::error("cannot expire leases; retrying: {}", status.ToString());
    }
  }
}

}  // namespace autocfg::server
