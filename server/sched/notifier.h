// Wakes those who wait for the store to change: watchers, study runners. Thread-safe.
//
// Read Version() first, then look at the store, then Wait(version): a change in between is not missed.
#pragma once

#include <cstdint>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace autocfg {

class Notifier {
 public:
  std::uint64_t Version();
  void Notify();

  // Returns once the version differs from `seen`, the timeout is over, or Close() has been called.
  void Wait(std::uint64_t seen, absl::Duration timeout);

  // From here on nobody waits.
  void Close();
  bool closed();

 private:
  absl::Mutex mutex_;
  std::uint64_t version_ = 0;
  bool closed_ = false;
};

}  // namespace autocfg
