// Tells systemd how this process is doing, if systemd started it as a service of Type=notify: that it serves,
// what it does, that it goes on (WatchdogSec=), that it ends. Does nothing otherwise. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/service/loop_watch.h"

namespace autocfg::base {

class ServiceManager {
 public:
  ServiceManager() = default;
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // The service serves. `status` is shown by `systemctl status`. No effect after Stopping.
  void Ready(const std::string& status);

  // From now on pings systemd's watchdog, as often as systemd asks for, but only if all loops have made a
  // round since the last ping. `rounds`: see LoopWatchOptions. Call at most once.
  void WatchLoops(std::function<std::vector<LoopRounds>()> rounds);

  // The service ends. Later calls have no effect.
  void Stopping(const std::string& status);

 private:
  std::atomic<bool> stopping_{false};
  std::unique_ptr<LoopWatch> pings_;
};

}  // namespace autocfg::base
