// Hands queued work out to the workers that wait for it, and tells those that hold some when to stop. Calls
// that wait are parked here with a function that answers them; no thread waits for each. Thread-safe.
//
// One thread looks at the store when that has changed, when a call is parked and when a deadline is over, and
// once a look_period in any case. Answers are given on it or on the thread that makes a call here, never
// under the dispatcher's lock.
#pragma once

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
#include "server/clock.h"
#include "server/sched/parked_calls.h"
#include "server/sched/presence.h"
#include "server/store/store.h"

namespace autocfg {

struct DispatcherOptions {
  double lease_duration_s = 10;
  absl::Duration broken_grace = absl::Seconds(1);  // for a worker to call again after its connection broke
  // After which a silent worker is taken for one that has deregistered. It registers again when it comes
  // back.
  double abandoned_s = 24 * 3600;
  absl::Duration look_period = absl::Seconds(1);
  std::function<void()> on_waiting = [] {};  // Waiting() has changed; called on the dispatcher's thread
};

struct PollRequest {
  WorkerSession session;
  absl::Duration wait;
  std::optional<std::vector<std::string>> held;  // all leases that the worker holds, where it says so
};
struct Work {
  std::optional<Lease> lease;  // empty: nothing to do
  bool drain = false;
};
// False: the caller has gone, and was given nothing.
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
  // The store outlives this object.
  Dispatcher(Store& store, Clock clock, DispatcherOptions options);
  ~Dispatcher();  // Close()

  // The store has changed: perhaps there is something to hand out or to stop.
  void StoreChanged() ABSL_LOCKS_EXCLUDED(mutex_);

  // Answers once there is work for the worker, and without any once `wait` is over or another poll of the
  // session comes. A worker that drains is told so at once, the first time. Errors: those of
  // Store::CheckSession and of the store; FailedPrecondition also when a new session of the worker begins;
  // Unavailable from Close() on. `answer` is called once; a lease that it does not take is returned to the
  // store.
  CallId Poll(const PollRequest& request, PollAnswer answer) ABSL_LOCKS_EXCLUDED(mutex_);
  // Renews at once; answers CANCEL as soon as the lease is to be given up, DRAIN when the worker is told to
  // drain, else CONTINUE once `wait` is over or the lease is renewed again. Errors: those of
  // Store::RenewLease, and as above.
  CallId Renew(const RenewRequest& request, const RenewAnswer& answer) ABSL_LOCKS_EXCLUDED(mutex_);

  // The caller of a parked call has gone: its answer is called with Cancelled. `broke`: not because its time
  // was over. Nothing for calls that have their answer.
  void PollerGone(CallId id, bool broke) ABSL_LOCKS_EXCLUDED(mutex_);
  void RenewerGone(CallId id, bool broke) ABSL_LOCKS_EXCLUDED(mutex_);

  // A lease that was answered and never reached its worker.
  void Undelivered(const Lease& lease);

  // Ends the leases that have run out. A session that has lost one gets no work until it calls again: its
  // parked poll ends without. `away`: they ran out while no coordinator was there, and cost nothing. Errors:
  // those of the store.
  absl::Status ExpireLeases(bool away) ABSL_LOCKS_EXCLUDED(hand_out_mutex_, mutex_);

  // What the store has been told already. A new session ends the calls of those before it, a deregistration
  // those of its own; a worker that drains is told.
  void Registered(const WorkerSession& session) ABSL_LOCKS_EXCLUDED(mutex_);
  void Deregistered(const WorkerSession& session) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drains(const std::string& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Another call of a session, which shows that it is there.
  void Heard(const WorkerSession& session) ABSL_LOCKS_EXCLUDED(mutex_);

  Presence::Seen Seen(const std::string& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Why no worker can take what the study has queued, as of the last look; empty where one can.
  std::string Waiting(std::int64_t study) ABSL_LOCKS_EXCLUDED(mutex_);
  // Parked polls and renewals: what the dispatcher holds.
  std::size_t parked() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all calls, those parked and those to come, with Unavailable. Idempotent.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct ParkedPoll {
    WorkerSession session;
    bool drain = false;
    PollAnswer answer;
  };
  struct ParkedRenewal {
    WorkerSession session;
    v1::LeaseCommand otherwise;  // what is said when the wait is over
    RenewAnswer answer;
  };
  using Answers = std::vector<std::function<void()>>;

  void Loop();
  void NoteRegistered() ABSL_LOCKS_EXCLUDED(mutex_);  // those that the store knows
  void Look();
  void DeregisterAbandoned(const std::vector<WorkerSession>& abandoned);
  void LoseBroken(const std::vector<WorkerSession>& lost);
  void HandOut() ABSL_LOCKS_EXCLUDED(hand_out_mutex_, mutex_);
  struct HandedOut {
    std::vector<Lease> leases;
    std::vector<std::optional<ParkedPoll>> polls;  // theirs
    bool other_waiting = false;                    // Waiting() has changed
  };
  // Takes the polls that get something, or, where the store failed, all that might have.
  HandedOut Assign(Answers& failed) ABSL_LOCKS_EXCLUDED(hand_out_mutex_, mutex_);
  // Takes the parked polls of sessions that have just lost leases: they are answered without work.
  Answers DismissPolls(const std::vector<EndedLease>& lost) ABSL_LOCKS_EXCLUDED(mutex_);
  void StopLeases();
  void EndDue(absl::Time now);  // those whose wait was over then, after they were looked at once more
  // Gives a lease to the poll; returns it to the store where the poll does not take it.
  void Give(const std::optional<ParkedPoll>& poll, const Lease& lease);
  void Ended(const WorkerSession& session, bool broke) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the calls that `which` (session -> bool) picks; they are answered with these.
  template <typename Which>
  Answers EndCalls(Which which, const absl::StatusOr<Work>& polls,
                   const absl::StatusOr<v1::LeaseCommand>& renewals) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Wake() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return closed_ || look_; }

  Store& store_;
  const Clock clock_;
  const DispatcherOptions options_;
  // Held from a look at who waits until that is answered for, and while leases are lost: nobody gets work for
  // a poll from before a loss.
  absl::Mutex hand_out_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool look_ ABSL_GUARDED_BY(mutex_) = true;
  std::uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;  // of the store, so far
  Presence presence_ ABSL_GUARDED_BY(mutex_);
  ParkedCalls<std::string, ParkedPoll> polls_ ABSL_GUARDED_BY(mutex_);        // by worker
  ParkedCalls<std::string, ParkedRenewal> renewals_ ABSL_GUARDED_BY(mutex_);  // by lease
  std::map<std::int64_t, std::string> waiting_ ABSL_GUARDED_BY(mutex_);       // by study
  absl::Status last_error_;  // of the dispatcher's thread, so that each is logged once
  std::thread thread_;
};

}  // namespace autocfg
