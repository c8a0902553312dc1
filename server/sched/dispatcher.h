// Assigns queued work to waiting workers, and tells lease holders to stop. Waiting calls are parked with an
// answer function; no thread waits for each call. Thread-safe.
//
// One thread looks when the store has changed, when a call is parked, when a deadline has passed, and at
// least once per look_period. What it reads of the store then does not grow with the number of studies. It
// reads why studies wait at most once per look_period, and only if something changed. Answers run on that
// thread or on a thread that calls this object, never under the dispatcher's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/os/host.h"
#include "base/os/wakeup.h"
#include "server/sched/keeping_turns.h"
#include "server/sched/lateness.h"
#include "server/sched/parked_calls.h"
#include "server/sched/presence.h"
#include "server/sched/waiting_reasons.h"
#include "server/store/store.h"

namespace autocfg::server {

struct DispatcherOptions {
  double lease_duration_s = 10;
  // time for a worker to call again after its connection broke
  absl::Duration broken_grace = absl::Seconds(1);
  // A worker silent for longer is deregistered. It registers again when it returns.
  double abandoned_s = 24 * 3600;
  absl::Duration look_period = absl::Seconds(1);
  // Waiting() of these studies has changed; called on the dispatcher's thread.
  std::function<void(const std::vector<std::int64_t>&)> on_waiting = [](const auto&) {};
  // Goes on while the process is stopped. Used only to notice that the dispatcher's thread was late.
  base::Clock elapsing = base::SteadyClock();
};

struct PollRequest {
  WorkerSession session;
  absl::Duration wait;
  std::optional<std::vector<std::string>> held;  // all leases that the worker holds, if it reports them
};
struct Work {
  std::optional<Lease> lease;  // empty: no work
  bool drain = false;
};
// Returns false if the caller is gone and received nothing.
using PollAnswer = std::function<bool(absl::StatusOr<Work>)>;

struct RenewRequest {
  WorkerSession session;
  std::string lease_id;
  std::int64_t fencing_token = 0;
  absl::Duration wait;
};
using RenewAnswer = std::function<void(absl::StatusOr<v1::LeaseCommand>)>;

class Dispatcher {
 public:
  // The store must outlive this object.
  Dispatcher(Store& store, base::Clock clock, DispatcherOptions options);
  ~Dispatcher();  // calls Close()

  // Call after a change of the store: there may be work to assign or leases to stop. A change of a study's
  // own row alone needs no call.
  void StoreChanged() ABSL_LOCKS_EXCLUDED(mutex_);

  // Answers once there is work for the worker; without work once `wait` has passed or another poll of the
  // session arrives. A draining worker is told once, immediately. Errors: those of Store::CheckSession and of
  // the store; FailedPrecondition if a new session of the worker begins; Unavailable after Close(). Calls
  // `answer` once; if it does not take the lease, the lease is returned to the store.
  CallId Poll(const PollRequest& request, PollAnswer answer) ABSL_LOCKS_EXCLUDED(mutex_);
  // Renews immediately. Answers CANCEL as soon as the lease must be given up, DRAIN when the worker is told
  // to drain, else CONTINUE after `wait` or when the lease is renewed again. Errors: those of
  // Store::RenewLease, and as above.
  CallId Renew(const RenewRequest& request, const RenewAnswer& answer) ABSL_LOCKS_EXCLUDED(mutex_);

  // The caller of a parked call is gone: calls its answer with Cancelled. `broke`: the connection broke
  // before the call's deadline. No effect on calls that were answered.
  void PollerGone(CallId id, bool broke) ABSL_LOCKS_EXCLUDED(mutex_);
  void RenewerGone(CallId id, bool broke) ABSL_LOCKS_EXCLUDED(mutex_);

  // Call for a lease that was answered but never reached its worker.
  void Undelivered(const Lease& lease);

  // Ends the leases that expired by `now_s`. A session that lost one gets no work until it calls again; its
  // parked poll is answered without work. `away`: no coordinator ran while they expired, so they do not count
  // as attempts. Errors: those of the store.
  absl::Status ExpireLeases(double now_s, bool away) ABSL_LOCKS_EXCLUDED(hand_out_mutex_, mutex_);

  // Grants all held leases anew, for when their workers could not renew them. Returns when they will expire.
  // Errors: those of the store.
  absl::StatusOr<double> GrantAnew();

  // Call after the store was updated. A new session ends the calls of earlier ones, a deregistration those of
  // its own session; a draining worker is told.
  void Registered(const WorkerSession& session) ABSL_LOCKS_EXCLUDED(mutex_);
  void Deregistered(const WorkerSession& session) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drains(const std::string& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Records another call of a session as a sign of life.
  void Heard(const WorkerSession& session) ABSL_LOCKS_EXCLUDED(mutex_);

  Presence::Seen Seen(const std::string& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns why the study's queued work waits for workers, or that all workers of its running jobs are quiet,
  // as a sentence for users. Empty if it does not wait. Reads the store.
  std::string Waiting(std::int64_t study) ABSL_LOCKS_EXCLUDED(mutex_);
  // Number of looks of the dispatcher's thread. Grows at least once per look_period unless that is stuck.
  std::uint64_t rounds() const { return rounds_; }

  // Number of parked polls and renewals.
  std::size_t parked() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all parked and later calls with Unavailable. Idempotent.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Returns the sentence if nothing was heard of any of these workers for some seconds; else nothing.
  std::string QuietText(const std::vector<std::string>& workers) ABSL_LOCKS_EXCLUDED(mutex_);

  template <typename Answer, typename Value>
  struct ParkedCall {
    WorkerSession session;
    Value otherwise;  // the answer after the wait
    Answer answer;
  };
  using ParkedPoll = ParkedCall<PollAnswer, Work>;
  using ParkedRenewal = ParkedCall<RenewAnswer, v1::LeaseCommand>;

  void Loop();
  void NoteRegistered() ABSL_LOCKS_EXCLUDED(mutex_);      // those registered in the store
  void LookSoon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // something changed that a job may wait for
  void Look();
  void ExcuseWorkers();  // if this thread was late
  void DeregisterAbandoned(const std::vector<WorkerSession>& abandoned) ABSL_LOCKS_EXCLUDED(mutex_);
  void LoseBroken(const std::vector<WorkerSession>& lost);
  void HandOut() ABSL_LOCKS_EXCLUDED(hand_out_mutex_, mutex_);
  struct HandedOut {
    std::vector<Lease> leases;
    std::vector<std::optional<ParkedPoll>> polls;  // in the order of `leases`
  };
  // Takes the polls that get work. If the store failed, takes all polls that might have got work. Does
  // nothing if nothing changed since the last call.
  HandedOut Assign(Answers& failed) ABSL_LOCKS_EXCLUDED(hand_out_mutex_, mutex_);
  // Finds out why studies wait, if that may have changed and a look_period has passed since the last time.
  // `changed`: studies whose reason has changed already.
  void Explain(std::vector<std::int64_t> changed) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the parked polls of sessions that just lost leases; they are answered without work.
  void DismissPolls(const std::vector<EndedLease>& lost, Answers& answers) ABSL_LOCKS_EXCLUDED(mutex_);
  void StopLeases();
  void EndDue(SteadyTime now);  // ends calls whose wait ended by `now`, after a last check
  // Answers the poll with the lease. Returns the lease to the store if the poll does not take it.
  void Give(const std::optional<ParkedPoll>& poll, const Lease& lease);
  // A call that was taken gets this answer.
  template <typename Call, typename Value>
  void End(const Call& call, const Value& value, Answers& answers, bool broke = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Ended(call.session, broke);
    answers.Add(call.answer, value);
  }
  void Ended(const WorkerSession& session, bool broke = false) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Calls>
  void CallerGone(Calls& calls, CallId id, bool broke) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the calls selected by `which` (session -> bool); they get these answers.
  template <typename Which>
  void EndCalls(Which which, const absl::StatusOr<Work>& polls,
                const absl::StatusOr<v1::LeaseCommand>& renewals, Answers& answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Store& store_;
  const base::Clock clock_;
  const DispatcherOptions options_;
  // Held from reading the waiting polls until they are answered, and while leases are lost, so that no poll
  // from before a loss gets work.
  absl::Mutex hand_out_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  absl::Mutex mutex_;
  base::Wakeup wakeup_;   // of the dispatcher's thread
  base::Wakeup closing_;  // set by Close()
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool changed_ ABSL_GUARDED_BY(mutex_) = true;        // since the last assignment
  std::uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;  // number of changes of the store
  Presence presence_ ABSL_GUARDED_BY(mutex_);
  ParkedCalls<std::string, ParkedPoll> polls_ ABSL_GUARDED_BY(mutex_);        // by worker
  ParkedCalls<std::string, ParkedRenewal> renewals_ ABSL_GUARDED_BY(mutex_);  // by lease
  WaitingReasons reasons_ ABSL_GUARDED_BY(mutex_);

  // Used only by the dispatcher's thread.
  Lateness lateness_;
  KeepingTurns turns_;
  bool keeps_ = true;                   // of the last assignment
  std::vector<WorkerSession> at_work_;  // at the last assignment
  bool unexplained_ = true;             // something changed since the last explanation
  SteadyTime next_explanation_ = SteadyTime::min();
  absl::Status last_error_;  // of an assignment and of an explanation; each error is logged once
  absl::Status last_explain_error_;

  std::atomic<std::uint64_t> rounds_{0};
  std::thread thread_;
};

}  // namespace autocfg::server
