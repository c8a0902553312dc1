// Threads that run the part of a call that waits for the disk. gRPC has only a few threads for its callback
// interface: half as many as cores, at least two. While they wait, no call gets on. Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace autocfg::server {

class CallThreads {
 public:
  // Throws std::system_error if the system gives too few threads.
  explicit CallThreads(int threads = kCallThreads);
  ~CallThreads();  // runs what is left
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // Runs it soon, in the order of the calls as far as threads are free.
  void Run(std::function<void()> call) ABSL_LOCKS_EXCLUDED(mutex_);

  static constexpr int kCallThreads = 16;

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  std::deque<std::function<void()>> calls_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace autocfg::server
