// How a rank waits for its peers: with backoff, and not while its own error unwinds the stack. Use each
// object from one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "trainer/comm/communicator.h"

namespace autocfg::trainer {

// Backoff for a rank that polls without progress. Because ranks may outnumber cores, it yields first, then
// sleeps for a small fraction of the time already waited. Use one object per wait.
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

// Detects stack unwinding in the owner of this object. During unwinding the peers may never do their part,
// and waiting for them would hide the error.
class Unwinding {
 public:
  // Ignores exceptions that were already active at construction: the object was then created during their
  // cleanup.
  bool Now() const { return std::uncaught_exceptions() > before_; }

 private:
  const int before_ = std::uncaught_exceptions();
};

// A Work whose destructor waits, as communicator.h requires, except during stack unwinding.
class ScopedWork : public Work {
 protected:
  // To be called in the destructor of the class that implements Wait(). Ignores exceptions of type `Ended`:
  // the operation has then ended, which is all that the destructor guarantees.
  template <typename Ended = CommError>
  void WaitUnlessUnwinding() {
    if (unwinding_.Now()) return;
    try {
      Wait();
    } catch (const Ended&) {
    }
  }

 private:
  const Unwinding unwinding_{};
};

}  // namespace autocfg::trainer
