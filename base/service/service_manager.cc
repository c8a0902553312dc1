#include "base/service/service_manager.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <utility>

#include "spdlog/spdlog.h"

namespace autocfg::base {
namespace {

constexpr int kKeepEnvironment = 0;
constexpr double kMicrosecondsInSecond = 1e6;
constexpr double kPingsInLimit = 4;

void Notify(const std::string& state) {
  const int result = ::sd_notify(kKeepEnvironment, state.c_str());
  if (result >= 0) return;
  spdlog::warn("systemd cannot be told '{}': {}", state.substr(0, state.find('\n')),
               std::generic_category().message(-result));
}

std::string StatusLine(std::string status) {
  std::replace(status.begin(), status.end(), '\n', ' ');
  return "\nSTATUS=" + status;
}

}  // namespace

void ServiceManager::Ready(const std::string& status) {
  if (!stopping_) Notify("READY=1" + StatusLine(status));
}

void ServiceManager::Stopping(const std::string& status) {
  if (!stopping_.exchange(true)) Notify("STOPPING=1" + StatusLine(status));
}

void ServiceManager::WatchLoops(std::function<std::vector<LoopRounds>()> rounds) {
  std::uint64_t limit_us = 0;
  if (::sd_watchdog_enabled(kKeepEnvironment, &limit_us) <= 0) return;
  const double limit_s = static_cast<double>(limit_us) / kMicrosecondsInSecond;
  pings_ = std::make_unique<LoopWatch>(LoopWatchOptions{.name = "watchdog",
                                                        .period_s = limit_s / kPingsInLimit,
                                                        .hung_s = limit_s,
                                                        .rounds = std::move(rounds),
                                                        .alive = [] { Notify("WATCHDOG=1"); }});
}

}  // namespace autocfg::base
