// Keeps a lease alive while its job runs, by renewals parked at the coordinator on a thread of its own, and
// turns what the coordinator says into a flag that ends the job. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
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

  struct Calls {
    // One renewal: the coordinator's command, at once or after `wait_s` seconds at most. No answer after
    // `limit_s` is none.
    std::function<absl::StatusOr<v1::LeaseCommand>(double wait_s, double limit_s)> renew;
    std::function<void()> cancel;         // ends `renew` under way, and each that begins later
    std::function<void()> drain = [] {};  // the coordinator said so; more than once, maybe
  };

  // The lease was granted at `granted` for `duration_s`. `stop` becomes true when the job is to end for any
  // reason.
  LeaseKeeper(Clock::time_point granted, double duration_s, Calls calls, std::atomic<bool>* stop);
  ~LeaseKeeper();  // End(), and waits for it

  // The coordinator asked for the job to be cancelled.
  bool cancelled() const { return cancelled_; }
  // The lease is another's by now, or no renewal has succeeded for as long as it lasts, counted from when the
  // last that did was sent: nothing that the job did may be reported.
  bool lost() const { return lost_ || Clock::now() >= Clock::time_point(Clock::duration(expires_.load())); }
  // It is as good as lost: the coordinator knows nothing of it.
  void Lose();
  // No more renewals; one under way is ended. Idempotent.
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

}  // namespace autocfg
