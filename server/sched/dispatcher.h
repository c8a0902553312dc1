// Assigns queued work to waiting workers, and tells lease holders to stop. Waiting calls are parked with an
// answer function; no thread waits for each call. Thread-safe.
//
// One thread checks the store when it has changed, when a call is parked, when a deadline has passed, and at
// least once per look_period. Answers run on that thread or on a thread that calls this object, never under
// the dispatcher's lock.
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
#include "base/os/host.h"
#include "server/sched/parked_calls.h"
#include "server/sched/presence.h"
#include "server/store/store.h"

namespace autocfg::server {

struct DispatcherOptions {
  double lease_duration_s = 10;
  // time for a worker to call again after its connection broke
  absl::Duration broken_grace = absl::Seconds(1);
  // A worker silent for longer is deregistered. It registers again when it returns.
  double abandoned_s = 24 * 3600;
  absl::Duration look_period = absl::Seconds(1);
  std::function<void()> on_waiting = [] {};  // Waiting() has changed; called on the dispatcher's thread
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

  // Call after a change of the store: there may be work to assign or leases to stop.
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

  // Ends expired leases. A session that lost one gets no work until it calls again; its parked poll is
  // answered without work. `away`: no coordinator ran while they expired, so they do not count as attempts.
  // Errors: those of the store.
  absl::Status ExpireLeases(bool away) ABSL_LOCKS_EXCLUDED(hand_out_mutex_, mutex_);

  // Call after the store was updated. A new session ends the calls of earlier ones, a deregistration those of
  // its own session; a draining worker is told.
  void Registered(const WorkerSession& session) ABSL_LOCKS_EXCLUDED(mutex_);
  void Deregistered(const WorkerSession& session) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drains(const std::string& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Records another call of a session as a sign of life.
  void Heard(const WorkerSession& session) ABSL_LOCKS_EXCLUDED(mutex_);

  Presence::Seen Seen(const std::string& worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns why no worker can take the study's queued work, as of the last check. Empty if one can.
  std::string Waiting(std::int64_t study) ABSL_LOCKS_EXCLUDED(mutex_);
  // Number of parked polls and renewals.
  std::size_t parked() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all parked and later calls with Unavailable. Idempotent.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct ParkedPoll {
    WorkerSession session;
    bool drain = false;
    PollAnswer answer;
  };
  struct ParkedRenewal {
    WorkerSession session;
    v1::LeaseCommand otherwise;  // the answer after the wait
    RenewAnswer answer;
  };
  using Answers = std::vector<std::function<void()>>;

  void Loop();
  void NoteRegistered() ABSL_LOCKS_EXCLUDED(mutex_);  // those registered in the store
  void Look();
  void DeregisterAbandoned(const std::vector<WorkerSession>& abandoned);
  void LoseBroken(const std::vector<WorkerSession>& lost);
  void HandOut() ABSL_LOCKS_EXCLUDED(hand_out_mutex_, mutex_);
  struct HandedOut {
    std::vector<Lease> leases;
    std::vector<std::optional<ParkedPoll>> polls;  // in the order of `leases`
    bool other_waiting = false;                    // Waiting() has changed
  };
  // Takes the polls that get work. If the store failed, takes all polls that might have got work.
  HandedOut Assign(Answers& failed) ABSL_LOCKS_EXCLUDED(hand_out_mutex_, mutex_);
  // Takes the parked polls of sessions that just lost leases; they are answered without work.
  Answers DismissPolls(const std::vector<EndedLease>& lost) ABSL_LOCKS_EXCLUDED(mutex_);
  void StopLeases();
  void EndDue(absl::Time now);  // ends calls whose wait ended by `now`, after a last check
  // Answers the poll with the lease. Returns the lease to the store if the poll does not take it.
  void Give(const std::optional<ParkedPoll>& poll, const Lease& lease);
  void Ended(const WorkerSession& session, bool broke) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the calls selected by `which` (session -> bool); they get these answers.
  template <typename Which>
  Answers EndCalls(Which which, const absl::StatusOr<Work>& polls,
                   const absl::StatusOr<v1::LeaseCommand>& renewals) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Wake() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return closed_ || look_; }

  Store& store_;
  const base::Clock clock_;
  const DispatcherOptions options_;
  // Held from reading the waiting polls until they are answered, and while leases are lost, so that no poll
  // from before a loss gets work.
  absl::Mutex hand_out_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool look_ ABSL_GUARDED_BY(mutex_) = true;
  std::uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;  // number of changes of the store
  Presence presence_ ABSL_GUARDED_BY(mutex_);
  ParkedCalls<std::string, ParkedPoll> polls_ ABSL_GUARDED_BY(mutex_);        // by worker
  ParkedCalls<std::string, ParkedRenewal> renewals_ ABSL_GUARDED_BY(mutex_);  // by lease
  std::map<std::int64_t, std::string> waiting_ ABSL_GUARDED_BY(mutex_);       // by study
  absl::Status last_error_;  // used only by the dispatcher's thread, to log each error once
  std::thread thread_;
};

}  // namespace autocfg::server
