// The slots of a worker: which are taken. Thread-safe.
#pragma once

#include <atomic>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace autocfg {

class SlotPool {
 public:
  explicit SlotPool(int slots) : taken_(static_cast<std::size_t>(slots)) {}

  // The lowest free ones, ascending, once so many are free: a job that was given up may still be ending its
  // processes when the coordinator gives its slots to the next. Empty once `stop` is true, or where the
  // worker has not so many at all.
  std::vector<int> Take(int count, const std::atomic<bool>& stop);
  void Give(const std::vector<int>& slots);

 private:
  absl::Mutex mutex_;
  std::vector<bool> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace autocfg
