#include "server/sched/lease_expiry.h"

#include <utility>

#include "spdlog/spdlog.h"

namespace autocfg {

LeaseExpiry::LeaseExpiry(Store& store, Clock clock, absl::Duration first, absl::Duration period)
    : store_(store), clock_(std::move(clock)), thread_([this, first, period] { Loop(first, period); }) {}

LeaseExpiry::~LeaseExpiry() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void LeaseExpiry::Loop(absl::Duration first, absl::Duration period) {
  absl::Duration wait = first;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), wait)) return;
    }
    wait = period;
    const auto expired = store_.ExpireLeases(clock_());
    if (!expired.ok()) {
      spdlog::error("leases cannot be ended: {}", expired.status().ToString());
    } else if (*expired > 0) {
      spdlog::warn("{} lease(s) ran out; their jobs are queued again", *expired);
    }
  }
}

}  // namespace autocfg
