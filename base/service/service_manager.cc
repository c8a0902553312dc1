#include "base/service/service_manager.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <system_error>
#include <utility>

#include "base/os/process.h"
#include "fmt/format.h"
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

ServiceManager::~ServiceManager() {
  ended_.Set();
  if (pings_.joinable()) pings_.join();
}

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
  pings_ = std::thread([this, limit_s, rounds = std::move(rounds)] { Ping(limit_s, rounds); });
}

void ServiceManager::Ping(double limit_s, const std::function<std::vector<LoopRounds>()>& rounds) {
  using Clock = std::chrono::steady_clock;
  NameThread("watchdog");
  std::vector<LoopRounds> pinged = rounds();
  auto last_ping = Clock::now();
  bool logged = false;
  while (!ended_.Wait(std::chrono::duration<double>(limit_s / kPingsInLimit))) {
    const std::vector<LoopRounds> now = rounds();
    std::size_t stuck = 0;
    while (stuck < now.size() && now[stuck].rounds != pinged[stuck].rounds) ++stuck;
    if (stuck == now.size()) {
      Notify("WATCHDOG=1");
      pinged = now;
      last_ping = Clock::now();
      logged = false;
      continue;
    }
    const double quiet_s = std::chrono::duration<double>(Clock::now() - last_ping).count();
    if (quiet_s < limit_s / 2 || std::exchange(logged, true)) continue;
    spdlog::error("the loop '{}' has made no round for {:.0f} s; systemd ends the service after {:.0f} s",
                  now[stuck].loop, quiet_s, limit_s);
  }
}

}  // namespace autocfg::base
