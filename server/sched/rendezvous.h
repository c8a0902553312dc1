// Gathers values across the workers of a job that spans several: each contributes the values of its ranks and
// gets those of all, one gathering after the other. Waiting calls are parked with an answer function; no
// thread waits for each call. Thread-safe.
//
// Memory is bounded: the values of one share in a gathering, those of a gathering, and those of complete
// gatherings. An attempt is dropped once none of its leases that joined is held. A gathering is stored before
// anyone gets its answer: whoever had none when the coordinator ended gets it from the next one. One that
// cannot be stored is still answered. If this object's thread was late (the process was stopped, say),
// the time limits are put off by as much. Answers run on this object's thread or a caller's thread, never
// under its lock.
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
#include "base/os/host.h"
#include "base/os/wakeup.h"
#include "server/sched/lateness.h"
#include "server/sched/parked_calls.h"
#include "server/store/store.h"

namespace autocfg::server {

struct RendezvousOptions {
  absl::Duration barrier = absl::Seconds(30);  // time limit for all shares to join
  // interval of lease checks if nothing changes
  absl::Duration look_period = absl::Seconds(1);
  std::size_t share_bytes = std::size_t{1} << 20;  // limit for one share's values in one gathering
  std::size_t gathering_bytes = std::size_t{32} << 20;
  // limit for an attempt's complete gatherings, except the last
  std::size_t kept_bytes = std::size_t{4} << 20;
  // Goes on while the process is stopped. Shows when the thread was late.
  base::Clock elapsing = base::SteadyClock();
};

struct JoinRequest {
  std::string lease_id;
  std::int64_t fencing_token = 0;
  std::string name;
  std::int64_t sequence = 0;
  std::vector<std::string> values;  // values of the lease's ranks
};
using Values = std::vector<std::string>;  // by rank
using JoinAnswer = std::function<void(absl::StatusOr<Values>)>;

class Rendezvous {
 public:
  // The store must outlive this object.
  Rendezvous(Store& store, RendezvousOptions options);
  ~Rendezvous();  // calls Close()

  // Answers once all shares of the attempt have contributed their values. A repeated call replaces the
  // waiting one; after completion it gets the same answer.
  //
  // - InvalidArgument: a name other than the others', other values than before, too many or too large
  // - FailedPrecondition: the lease is not held, the gathering is neither the next nor a kept one, or another
  //   share of the attempt has ended
  // - Aborted: the attempt is being stopped, or the call was repeated
  // - DeadlineExceeded: not all shares joined within `barrier` of the first
  // - Unavailable: after Close()
  CallId Join(const JoinRequest& request, JoinAnswer answer) ABSL_LOCKS_EXCLUDED(mutex_);
  // The caller is gone: calls its answer with Cancelled. Its values remain.
  void CallerGone(CallId id) ABSL_LOCKS_EXCLUDED(mutex_);
  // Call after a change of the store: an attempt may have to stop.
  void StoreChanged() ABSL_LOCKS_EXCLUDED(mutex_);
  // Bytes of stored values.
  std::size_t bytes() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends all waiting and later calls, but not those whose gathering is being stored. Idempotent.
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
    SteadyTime deadline;
    std::map<std::int32_t, std::vector<std::string>> values;  // by the share's first rank
    std::int32_t ranks = 0;                                   // that have joined
    std::size_t bytes = 0;
    bool storing = false;  // all have joined; it is complete once the write has ended, even if it failed
    bool complete = false;
  };
  // A gathering that all have joined, and the calls that wait for it to be stored.
  struct Full {
    KeptGathering gathering;
    std::vector<JoinAnswer> answers;
  };
  struct Attempt {
    std::int32_t ranks = 0;                        // of the job
    std::map<std::int64_t, Gathering> gatherings;  // by sequence
    // first rank and number of ranks of the leases that joined
    std::map<LeaseKey, std::pair<std::int32_t, std::int32_t>> shares;
    bool restored = false;  // has only a gathering of the coordinator before this one
  };
  struct Waiting {
    AttemptKey attempt;
    std::int64_t sequence = 0;
    JoinAnswer answer;
  };

  absl::Status Bring(Attempt& attempt, const ShareOfAttempt& share, const JoinRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Attempt Restored(const KeptGathering& kept);
  // Makes the attempt known, with the gathering that is stored of it, and the lease as one that joined. Reads
  // the store only if the attempt is unknown. Errors: those of the store.
  absl::Status Enter(const AttemptKey& key, const LeaseKey& lease, const ShareOfAttempt& share)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<JoinAnswer> TakeCalls(const AttemptKey& key, std::int64_t sequence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Full Fill(const AttemptKey& key, std::int64_t sequence, Gathering& gathering)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stores the gathering and answers the calls.
  void Complete(const ShareOfAttempt& share, Full full) ABSL_LOCKS_EXCLUDED(mutex_);
  static Values Gathered(const std::map<std::int32_t, std::vector<std::string>>& values);
  void DropOld(Attempt& attempt) const;
  void Loop();
  void PutOff(double late_s);  // all deadlines
  void EndLate();
  void EndBroken();

  Store& store_;
  const RendezvousOptions options_;
  absl::Mutex mutex_;
  base::Wakeup wakeup_;  // of this object's thread
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<AttemptKey, Attempt> attempts_ ABSL_GUARDED_BY(mutex_);
  ParkedCalls<LeaseKey, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace autocfg::server
