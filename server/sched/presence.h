// Tracks which workers are present: when each session was last heard of, and whether it has a parked call.
// Not thread-safe; the owner guards it.
//
// Two clocks: `now_s` is Unix time by the coordinator's clock; `now` is steady time, for the grace period of
// broken connections.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/sched/parked_calls.h"
#include "server/store/records.h"

namespace autocfg::server {

// Returns the state of a worker. `silent`: Presence::Seen::silent.
v1::WorkerState StateOf(const WorkerRecord& record, bool silent);

// How long a worker counts as one that takes jobs before it first asks for work, in seconds. One that
// registers again and again without asking does not become new again.
inline constexpr double kNewWorkerGraceS = 5;

class Presence {
 public:
  // A session is lost if the connection of its last parked call breaks and nothing is heard for `grace`.
  Presence(double lease_duration_s, absl::Duration grace)
      : lease_duration_s_(lease_duration_s), grace_(grace) {}

  // Adds a session from the store that has not been heard of yet. No effect if the worker called already.
  void Note(const WorkerSession& session, double now_s);
  // Records a call of the session. Returns false, without effect, if a later session of the worker is known.
  bool Heard(const WorkerSession& session, double now_s);
  // The session asked for work or renewed a lease. Call after Heard().
  void Works(const WorkerSession& session, double now_s);
  // Such a call is now parked. Call after Works().
  void Parked(const WorkerSession& session);
  // A parked call ended; `broke`: because its connection broke.
  void Unparked(const WorkerSession& session, bool broke, double now_s, SteadyTime now);
  // A parked call was ended by the coordinator, so this is no sign of life.
  void Dismissed(const WorkerSession& session);
  // The session has deregistered.
  void Forget(const WorkerSession& session);
  // The coordinator could not be called for `late_s` until now: sessions that were not silent before are
  // given a lease duration to call, and so are those whose connection broke or breaks within that time.
  void Excuse(double late_s, double now_s, SteadyTime now);

  // Returns the sessions lost since the last call.
  std::vector<WorkerSession> TakeLost(SteadyTime now);
  // Returns the sessions that became silent since the last call: not heard of for longer than a lease
  // duration.
  std::vector<WorkerSession> TakeSilent(double now_s);
  // Removes and returns the sessions not heard of, nor noted, for longer than `after_s`.
  std::vector<WorkerSession> TakeAbandoned(double now_s, double after_s);
  SteadyTime NextLoss() const;  // SteadyTime::max() if no loss is pending

  // Returns the sessions on whose slots queued jobs can count, by name: they have a parked call, or asked for
  // work or renewed a lease within a lease duration, and are not lost. Any other call of a worker, however
  // often it comes, does not show that it takes jobs.
  std::vector<WorkerSession> AtWork(double now_s) const;
  struct Seen {
    double last_s = 0;        // 0: never
    bool silent = true;       // for longer than a lease duration
    bool takes_jobs = false;  // at work, or new: first heard of within kNewWorkerGraceS
  };
  Seen Find(const std::string& worker, double now_s) const;
  // Returns for how many seconds nothing was heard of the worker: 0 while it has a parked call, or if it is
  // not known.
  double QuietFor(const std::string& worker, double now_s) const;

  // Return true the first time for a session: each draining session is told once.
  bool TellDrainToPoll(const WorkerSession& session);
  bool TellDrainToRenewal(const WorkerSession& session);

 private:
  struct Entry {
    std::int64_t epoch = 0;
    double noted_s = 0;
    double last_s = 0;
    double first_s = 0;    // first heard of, in this session or in earlier ones that never asked for work
    double worked_s = 0;   // last call of Works(), or the end of such a parked call
    double excused_s = 0;  // its silence counts from then, if it is later than last_s
    int parked = 0;
    double parked_until_s = 0;          // the end of the last parked call, also if its connection broke
    std::optional<SteadyTime> lost_at;  // unless heard of before
    bool lost = false;
    bool silent = false;  // already reported by TakeSilent
    bool poll_told = false;
    bool renewal_told = false;
  };
  Entry* Current(const WorkerSession& session);
  bool IsAtWork(const Entry& entry, double now_s) const;
  static double SilentSince(const Entry& entry) { return std::max(entry.last_s, entry.excused_s); }

  const double lease_duration_s_;
  const absl::Duration grace_;
  std::map<std::string, Entry> workers_;
  SteadyTime excused_until_ = SteadyTime::min();
};

}  // namespace autocfg::server
