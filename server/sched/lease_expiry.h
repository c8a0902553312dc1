// Ends leases that were not renewed, in its own thread. The first check happens one period after the start,
// so that workers can renew after a coordinator restart; leases expired by then expired while no coordinator
// ran. The dispatcher must outlive this object.
#pragma once

#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/sched/dispatcher.h"

namespace autocfg::server {

class LeaseExpiry {
 public:
  // `first`: time until the first check; `period`: time between checks. Both are real time; expiry itself
  // uses the dispatcher's clock.
  LeaseExpiry(Dispatcher& dispatcher, absl::Duration first, absl::Duration period);
  ~LeaseExpiry();  // ends the thread
  LeaseExpiry(const LeaseExpiry&) = delete;
  LeaseExpiry& operator=(const LeaseExpiry&) = delete;

 private:
  void Loop(absl::Duration first, absl::Duration period);

  Dispatcher& dispatcher_;
  absl::Mutex mutex_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace autocfg::server
