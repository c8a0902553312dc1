// Tells systemd how this process is doing, if systemd started it as a service of Type=notify: that it serves,
// what it does, that it goes on (WatchdogSec=), that it ends. Does nothing otherwise. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/os/wakeup.h"

namespace autocfg::base {

// The rounds that a loop of the service has made since its start.
struct LoopRounds {
  const char* loop;
  std::uint64_t rounds;
};

class ServiceManager {
 public:
  ServiceManager() = default;
  ~ServiceManager();  // ends the pings
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // The service serves. `status` is shown by `systemctl status`. No effect after Stopping.
  void Ready(const std::string& status);

  // From now on pings systemd's watchdog, as often as systemd asks for, but only if all loops have made a
  // round since the last ping. `rounds` returns the loops in the same order every time; it is called by a
  // thread of this object until this object is destroyed. Logs an error, once, for a loop that has made no
  // round for half of systemd's limit. Call at most once.
  void WatchLoops(std::function<std::vector<LoopRounds>()> rounds);

  // The service ends. Later calls have no effect.
  void Stopping(const std::string& status);

 private:
  void Ping(double limit_s, const std::function<std::vector<LoopRounds>()>& rounds);

  std::atomic<bool> stopping_{false};
  Wakeup ended_;  // set by the destructor
  std::thread pings_;
};

}  // namespace autocfg::base
