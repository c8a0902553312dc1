// A signal that one thread waits for, with a time limit by the steady clock. The timed waits of absl::Mutex
// follow the system's clock: a step back prolongs them, a step forward ends them. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace autocfg::base {

class Wakeup {
 public:
  // Ends the current wait, else the next one.
  void Set();

  // Returns true once Set() was called since the last wait, or false after `limit`. A limit of more than a
  // day is a day.
  bool Wait(std::chrono::duration<double> limit);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace autocfg::base
