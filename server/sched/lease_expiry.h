// Ends leases that were not renewed, on a thread of its own. The first look is one period after the start:
// workers that outlived the last coordinator get the time to renew. Requires a store and a clock that outlive
// it.
#pragma once

#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/clock.h"
#include "server/store/store.h"

namespace autocfg {

class LeaseExpiry {
 public:
  // `first`: until the first look; `period`: between looks (real time; what has expired is the clock's).
  LeaseExpiry(Store& store, Clock clock, absl::Duration first, absl::Duration period);
  ~LeaseExpiry();  // Ends the thread.
  LeaseExpiry(const LeaseExpiry&) = delete;
  LeaseExpiry& operator=(const LeaseExpiry&) = delete;

 private:
  void Loop(absl::Duration first, absl::Duration period);

  Store& store_;
  Clock clock_;
  absl::Mutex mutex_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace autocfg
