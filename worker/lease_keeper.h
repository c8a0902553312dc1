// Keeps a lease alive while its job runs: renews it at a third of its duration on a thread of its own, and
// turns what the coordinator says into a flag that ends the job. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg {

class LeaseKeeper {
 public:
  using Clock = std::chrono::steady_clock;

  // One renewal: the coordinator's command. Must return within a few seconds.
  using Renew = std::function<absl::StatusOr<v1::LeaseCommand>()>;

  // The lease was granted at `granted` for `duration_s`. `stop` becomes true when the job is to end for any
  // reason.
  LeaseKeeper(Clock::time_point granted, double duration_s, Renew renew, std::atomic<bool>* stop);
  ~LeaseKeeper();  // ends the thread; waits for a renewal under way

  // The coordinator asked for the job to be cancelled.
  bool cancelled() const { return cancelled_; }
  // The lease is another's by now, or has run out as far as this side can tell: nothing that the job did may
  // be reported.
  bool lost() const { return lost_ || Clock::now() >= Clock::time_point(Clock::duration(expires_.load())); }

 private:
  void Loop();

  const std::chrono::duration<double> duration_;
  const Renew renew_;
  std::atomic<bool>* const stop_;
  std::atomic<Clock::rep> expires_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> lost_{false};
  absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace autocfg
