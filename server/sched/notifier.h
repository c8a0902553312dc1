// Wakes threads that wait for the store to change: watchers, study runners. Thread-safe.
//
// Call Version(), then read the store, then Wait(version): no change in between is missed.
#pragma once

#include <cstdint>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace autocfg::server {

class Notifier {
 public:
  std::uint64_t Version();
  void Notify();

  // Returns once the version differs from `seen`, after the timeout, or after Close().
  void Wait(std::uint64_t seen, absl::Duration timeout);

  // Ends all current and later waits.
  void Close();
  bool closed();

 private:
  absl::Mutex mutex_;
  std::uint64_t version_ = 0;
  bool closed_ = false;
};

}  // namespace autocfg::server
