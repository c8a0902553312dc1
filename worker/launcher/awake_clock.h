// The time of a loop that watches others. A loop that was suspended (Ctrl-Z, SIGSTOP) or starved finds only
// afterwards what came meanwhile, so that time counts toward no limit. Plain value.
#pragma once

#include <chrono>

namespace autocfg::worker {

class AwakeClock {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kMostGap{2};  // between two ticks of a loop that runs

  explicit AwakeClock(Clock::time_point real = Clock::now()) : last_(real) {}

  // Call in each round of the loop, once it has waited. A longer gap than kMostGap is left out.
  void Tick(Clock::time_point real = Clock::now()) {
    if (real - last_ > kMostGap) left_out_ += real - last_;
    last_ = real;
  }

  // Returns the time without what was left out.
  Clock::time_point now(Clock::time_point real = Clock::now()) const { return real - left_out_; }

 private:
  Clock::time_point last_;
  Clock::duration left_out_{0};
};

}  // namespace autocfg::worker
