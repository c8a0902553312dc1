// Tells whether the loops of a service go on: a thread that says so again and again as long as they do.
#pragma once

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

struct LoopWatchOptions {
  std::string name;     // of the thread; at most 15 bytes
  double period_s = 1;  // between looks
  double hung_s = 120;  // a loop without a round for this long hangs; one for half as long is logged, once
  // Returns the loops, in the same order every time.
  std::function<std::vector<LoopRounds>()> rounds;
  // All loops have made a round since it was last called, or since the start.
  std::function<void()> alive;
};

class LoopWatch {
 public:
  explicit LoopWatch(LoopWatchOptions options);
  ~LoopWatch();  // ends the thread; neither function is called any more
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;

 private:
  void Run();

  const LoopWatchOptions options_;
  Wakeup ended_;
  std::thread thread_;
};

}  // namespace autocfg::base
