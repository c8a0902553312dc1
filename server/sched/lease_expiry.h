// Ends leases that were not renewed, on a thread of its own. The first look is one period after the start:
// workers that outlived the last coordinator get the time to renew, and what has run out by then has done so
// while no coordinator was there. Requires a dispatcher that outlives it.
#pragma once

#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/sched/dispatcher.h"

namespace autocfg {

class LeaseExpiry {
 public:
  // `first`: until the first look; `period`: between looks (real time; what has expired is the dispatcher's
  // clock's).
  LeaseExpiry(Dispatcher& dispatcher, absl::Duration first, absl::Duration period);
  ~LeaseExpiry();  // Ends the thread.
  LeaseExpiry(const LeaseExpiry&) = delete;
  LeaseExpiry& operator=(const LeaseExpiry&) = delete;

 private:
  void Loop(absl::Duration first, absl::Duration period);

  Dispatcher& dispatcher_;
  absl::Mutex mutex_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace autocfg
