// Ends leases that were not renewed, in its own thread. No lease ends because its worker could not renew it:
// all held leases are granted anew when this object starts (no coordinator ran before) and when its thread
// was late (lateness.h). Leases of an earlier coordinator that then expire without a renewal count as expired
// while no coordinator ran. The dispatcher must outlive this object.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "base/os/host.h"
#include "base/os/wakeup.h"
#include "server/sched/dispatcher.h"
#include "server/sched/lateness.h"

namespace autocfg::server {

struct LeaseExpiryOptions {
  double lease_duration_s = 10;
  std::chrono::duration<double> period{1};  // real time between checks
  base::Clock clock;                        // the dispatcher's; leases expire by it
  // Goes on while the process is stopped. Shows when the thread was late.
  base::Clock elapsing = base::SteadyClock();
  // Logged when it is stepped: users wonder about the times that they see.
  base::Clock system = base::SystemClock();
};

class LeaseExpiry {
 public:
  LeaseExpiry(Dispatcher& dispatcher, LeaseExpiryOptions options);
  ~LeaseExpiry();  // ends the thread
  LeaseExpiry(const LeaseExpiry&) = delete;
  LeaseExpiry& operator=(const LeaseExpiry&) = delete;

  // Number of checks. Grows once per period unless the thread is stuck. Thread-safe.
  std::uint64_t rounds() const { return rounds_; }

 private:
  void Loop();
  absl::Status Check();
  void LogStep();

  Dispatcher& dispatcher_;
  const LeaseExpiryOptions options_;
  base::Wakeup stopping_;

  // Used only by the thread.
  Lateness lateness_;
  bool grant_ = true;                 // before anything expires
  bool first_ = true;                 // grant since the start
  std::optional<double> away_until_;  // leases that expire by then have not been renewed since the start
  std::optional<double> ahead_s_;     // of the system's clock

  std::atomic<std::uint64_t> rounds_{0};
  std::thread thread_;
};

}  // namespace autocfg::server
