// Tracks which slots of a worker are taken. Thread-safe.
#pragma once

#include <atomic>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace autocfg::worker {

class SlotPool {
 public:
  explicit SlotPool(int slots) : taken_(static_cast<std::size_t>(slots)) {}

  // Waits until `count` slots are free; returns the lowest free ones, ascending. Waiting is needed because a
  // cancelled job may still be ending its processes when the coordinator assigns its slots again. Returns an
  // empty list once `stop` is true, or if the worker has fewer slots.
  std::vector<int> Take(int count, const std::atomic<bool>& stop);
  void Give(const std::vector<int>& slots);

 private:
  absl::Mutex mutex_;
  std::vector<bool> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace autocfg::worker
