// Keeps a lease alive while its job runs. Its own thread sends renewals, which the coordinator parks.
// Converts the coordinator's commands into a flag that ends the job. Thread-safe.
//
// Only the coordinator knows whether a lease is still held: one that was stopped or restarted grants its
// leases anew. So a job goes on while nobody answers, and its result is kept; the fencing token makes sure
// that it counts only under a lease that is held. After some minutes without an answer the job is given up.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "absl/status/statusor.h"
#include "autocfg/v1/worker_service.pb.h"
#include "base/os/wakeup.h"

namespace autocfg::worker {

class LeaseKeeper {
 public:
  using Clock = std::chrono::steady_clock;

  // Time beyond the lease duration, without an answer, after which a job is given up. As long as `search` and
  // `watch` wait for a server.
  static constexpr std::chrono::duration<double> kPatience = std::chrono::minutes(10);

  struct Calls {
    // Sends one renewal. Returns the coordinator's command, within `wait_s` seconds. Fails after `limit_s`
    // without a reply.
    std::function<absl::StatusOr<v1::LeaseCommand>(double wait_s, double limit_s)> renew;
    std::function<void()> cancel;         // ends in-flight calls of `renew`, and each later one
    std::function<void()> drain = [] {};  // the coordinator requested a drain; may be called repeatedly
  };

  // The lease was granted at `granted` for `duration_s`. Sets `stop` to true when the job must end for any
  // reason.
  LeaseKeeper(Clock::time_point granted, double duration_s, Calls calls, std::atomic<bool>* stop,
              std::chrono::duration<double> patience = kPatience);
  ~LeaseKeeper();  // calls End() and waits for the thread

  // Returns true if the coordinator cancelled the job.
  bool cancelled() const { return cancelled_; }
  // Returns true if the coordinator said that the lease is not held any more, or gave no answer for the lease
  // duration and `patience`, counted from when the last successful renewal was sent. The job's result is then
  // not reported.
  bool lost() const { return lost_ || Clock::now() >= Clock::time_point(Clock::duration(given_up_.load())); }
  // Marks the lease as lost: the coordinator does not know it.
  void Lose();
  // Stops renewing and cancels an in-flight renewal. Idempotent.
  void End();

 private:
  void Loop();

  const std::chrono::duration<double> duration_;
  const std::chrono::duration<double> patience_;
  const Calls calls_;
  std::atomic<bool>* const stop_;
  std::atomic<Clock::rep> given_up_;  // if nobody answers until then
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> lost_{false};
  std::atomic<bool> ended_{false};
  base::Wakeup ending_;
  std::thread thread_;
};

}  // namespace autocfg::worker
