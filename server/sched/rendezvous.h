// Where the workers of a job that spans several bring the values of their ranks, and each gets those of all:
// one gathering after the other. Calls wait parked, with a function that answers them; no thread waits for
// each. Thread-safe.
//
// What is kept is bounded: the values of one share in one gathering, those of a gathering, and the gatherings
// that are over. Attempts are dropped once none of their leases that came here is held. Answers are given on
// the thread of this object or of a call, never under its lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/sched/parked_calls.h"
#include "server/store/store.h"

namespace autocfg {

struct RendezvousOptions {
  absl::Duration barrier = absl::Seconds(30);  // within which all shares come
  // at which leases are looked at though nothing has changed
  absl::Duration look_period = absl::Seconds(1);
  std::size_t share_bytes = std::size_t{1} << 20;  // of one share's values in one gathering
  std::size_t gathering_bytes = std::size_t{32} << 20;
  // of gatherings that are over, an attempt, beside the last
  std::size_t kept_bytes = std::size_t{4} << 20;
};

struct JoinRequest {
  std::string lease_id;
  std::int64_t fencing_token = 0;
  std::string name;
  std::int64_t sequence = 0;
  std::vector<std::string> values;  // of the lease's ranks
};
using Values = std::vector<std::string>;  // by rank
using JoinAnswer = std::function<void(absl::StatusOr<Values>)>;

class Rendezvous {
 public:
  // The store outlives this object.
  Rendezvous(Store& store, RendezvousOptions options);
  ~Rendezvous();  // Close()

  // Answers once all shares of the attempt have brought their values. The same call again takes the place of
  // the one that waits, and has the same answer as one that was answered. InvalidArgument: another name than
  // the others', other values than before, too many or too large; FailedPrecondition: the lease is not held,
  // or the gathering is not the next one nor one that is kept; Aborted: the attempt is being stopped, or the
  // same call has come again; DeadlineExceeded: not all came within `barrier` of the first; Unavailable from
  // Close() on.
  CallId Join(const JoinRequest& request, JoinAnswer answer) ABSL_LOCKS_EXCLUDED(mutex_);
  // The caller has gone: its answer is called with Cancelled, and what it brought stays.
  void CallerGone(CallId id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The store has changed: perhaps an attempt is to be stopped.
  void StoreChanged() ABSL_LOCKS_EXCLUDED(mutex_);
  // Bytes of values that are kept.
  std::size_t bytes() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends all calls, those that wait and those to come. Idempotent.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct LeaseKey {
    std::string lease_id;
    std::int64_t fencing_token = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): false positive
    friend auto operator<=>(const LeaseKey&, const LeaseKey&) = default;
  };
  using AttemptKey = std::pair<std::int64_t, std::int64_t>;  // job, attempt
  struct Gathering {
    std::string name;
    absl::Time deadline;
    std::map<std::int32_t, std::vector<std::string>> values;  // by the share's first rank
    std::int32_t ranks = 0;                                   // that have come
    std::size_t bytes = 0;
    bool complete = false;
  };
  struct Attempt {
    std::int32_t ranks = 0;                        // of the job
    std::map<std::int64_t, Gathering> gatherings;  // by sequence
    // first rank and ranks, of the leases that came
    std::map<LeaseKey, std::pair<std::int32_t, std::int32_t>> shares;
  };
  struct Waiting {
    AttemptKey attempt;
    std::int64_t sequence = 0;
    JoinAnswer answer;
  };
  using Answers = std::vector<std::function<void()>>;

  absl::Status Bring(Attempt& attempt, const ShareOfAttempt& share, const JoinRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Answers Complete(const AttemptKey& key, Attempt& attempt, std::int64_t sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Values Gathered(const Gathering& gathering);
  void DropOld(Attempt& attempt) const;
  void Loop();
  void EndLate();
  void EndBroken();
  bool Wake() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return closed_ || look_; }

  Store& store_;
  const RendezvousOptions options_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool look_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<AttemptKey, Attempt> attempts_ ABSL_GUARDED_BY(mutex_);
  ParkedCalls<LeaseKey, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace autocfg
