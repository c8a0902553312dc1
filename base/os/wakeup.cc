#include "base/os/wakeup.h"

#include <algorithm>
#include <utility>

namespace autocfg::base {

void Wakeup::Set() {
  {
    const std::lock_guard lock(mutex_);
    set_ = true;
  }
  changed_.notify_one();
}

bool Wakeup::Wait(std::chrono::duration<double> limit) {
  // A longer limit would overflow the clock's range.
  constexpr std::chrono::duration<double> kLongest = std::chrono::hours(24);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::min(limit, kLongest), [this] { return set_; });
  return std::exchange(set_, false);
}

}  // namespace autocfg::base
