#include "worker/jobs/slot_pool.h"

#include <algorithm>
#include <cstddef>

#include "absl/time/time.h"

namespace autocfg::worker {
namespace {

// Poll interval for `stop`, which wakes no waiter.
constexpr absl::Duration kLook = absl::Milliseconds(20);

}  // namespace

std::vector<int> SlotPool::Take(int count, const std::atomic<bool>& stop) {
  absl::MutexLock lock(&mutex_);
  if (count <= 0 || static_cast<std::size_t>(count) > taken_.size()) return {};
  const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::count(taken_.begin(), taken_.end(), false) >= count;
  };
  while (!stop) {
    if (!mutex_.AwaitWithTimeout(absl::Condition(&enough), kLook)) continue;
    std::vector<int> slots;
    for (std::size_t slot = 0; slots.size() < static_cast<std::size_t>(count); ++slot) {
      if (taken_[slot]) continue;
      taken_[slot] = true;
      slots.push_back(static_cast<int>(slot));
    }
    return slots;
  }
  return {};
}

void SlotPool::Give(const std::vector<int>& slots) {
  absl::MutexLock lock(&mutex_);
  for (const int slot : slots) taken_[static_cast<std::size_t>(slot)] = false;
}

}  // namespace autocfg::worker
