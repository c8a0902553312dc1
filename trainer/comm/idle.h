// Backoff for a rank that polls without progress. Because ranks may outnumber cores, it yields first, then
// sleeps for a small fraction of the time already waited. Use one object per wait, from one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace autocfg::trainer {

class Idle {
 public:
  void operator()() {
    using namespace std::chrono;
    std::this_thread::yield();
    if (++rounds_ < kYields) return;
    const auto now = steady_clock::now();
    if (rounds_ == kYields) since_ = now;
    const auto waited = now - since_;
    if (waited < milliseconds(1)) return;
    std::this_thread::sleep_for(std::min<steady_clock::duration>(waited / 16, microseconds(500)));
  }

 private:
  static constexpr int kYields = 256;
  int rounds_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace autocfg::trainer
