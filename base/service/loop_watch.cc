#include "base/service/loop_watch.h"

#include <chrono>
#include <cstddef>
#include <utility>

#include "base/os/process.h"
#include "spdlog/spdlog.h"

namespace autocfg::base {

LoopWatch::LoopWatch(LoopWatchOptions options) : options_(std::move(options)), thread_([this] { Run(); }) {}

LoopWatch::~LoopWatch() {
  ended_.Set();
  thread_.join();
}

void LoopWatch::Run() {
  using Clock = std::chrono::steady_clock;
  NameThread(options_.name);
  std::vector<LoopRounds> before = options_.rounds();
  auto last_alive = Clock::now();
  bool logged = false;
  while (!ended_.Wait(std::chrono::duration<double>(options_.period_s))) {
    std::vector<LoopRounds> now = options_.rounds();
    std::size_t quiet = 0;
    while (quiet < now.size() && now[quiet].rounds != before[quiet].rounds) ++quiet;
    if (quiet == now.size()) {
      options_.alive();
      before = std::move(now);
      last_alive = Clock::now();
      logged = false;
      continue;
    }
    const double quiet_s = std::chrono::duration<double>(Clock::now() - last_alive).count();
    if (quiet_s < options_.hung_s / 2 || std::exchange(logged, true)) continue;
    spdlog::error(
        "the loop '{}' has made no round for {:.0f} s; from {:.0f} s on, this process counts as hung",
        now[quiet].loop, quiet_s, options_.hung_s);
  }
}

}  // namespace autocfg::base
