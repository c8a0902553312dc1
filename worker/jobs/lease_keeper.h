// Keeps a lease alive while its job runs. Its own thread sends renewals, which the coordinator parks.
// Converts the coordinator's commands into a flag that ends the job. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg::worker {

class LeaseKeeper {
 public:
  using Clock = std::chrono::steady_clock;

  struct Calls {
    // Sends one renewal. Returns the coordinator's command, within `wait_s` seconds. Fails after `limit_s`
    // without a reply.
    std::function<absl::StatusOr<v1::LeaseCommand>(double wait_s, double limit_s)> renew;
    std::function<void()> cancel;         // ends in-flight calls of `renew`, and each later one
    std::function<void()> drain = [] {};  // the coordinator requested a drain; may be called repeatedly
  };

  // The lease was granted at `granted` for `duration_s`. Sets `stop` to true when the job must end for any
  // reason.
  LeaseKeeper(Clock::time_point granted, double duration_s, Calls calls, std::atomic<bool>* stop);
  ~LeaseKeeper();  // calls End() and waits for the thread

  // Returns true if the coordinator cancelled the job.
  bool cancelled() const { return cancelled_; }
  // Returns true if another worker holds the lease, or no renewal succeeded within the lease duration,
  // counted from when the last successful one was sent. The job's result must then not be reported.
  bool lost() const { return lost_ || Clock::now() >= Clock::time_point(Clock::duration(expires_.load())); }
  // Marks the lease as lost: the coordinator does not know it.
  void Lose();
  // Stops renewing and cancels an in-flight renewal. Idempotent.
  void End();

 private:
  void Loop();
  bool EndsWithin(std::chrono::duration<double> pause);

  const std::chrono::duration<double> duration_;
  const Calls calls_;
  std::atomic<bool>* const stop_;
  std::atomic<Clock::rep> expires_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> lost_{false};
  absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace autocfg::worker
