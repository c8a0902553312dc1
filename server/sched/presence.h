// Tracks which workers are present: when each session was last heard of, and whether it has a parked call.
// Not thread-safe; the owner guards it.
//
// Two clocks: `now_s` is Unix time by the coordinator's clock; `now` is real time, for the grace period of
// broken connections.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/store/store.h"

namespace autocfg::server {

class Presence {
 public:
  // A session is live while it has a parked call, and for two lease durations after it was last heard of. A
  // session is lost if the connection of its last parked call breaks and nothing is heard for `grace`.
  Presence(double lease_duration_s, absl::Duration grace)
      : lease_duration_s_(lease_duration_s), grace_(grace) {}

  // Adds a session from the store that has not been heard of yet. No effect if the worker called already.
  void Note(const WorkerSession& session, double now_s);
  // Records a call of the session. Returns false, without effect, if a later session of the worker is known.
  bool Heard(const WorkerSession& session, double now_s);
  // A call of the session is now parked. Call after Heard().
  void Parked(const WorkerSession& session);
  // A parked call ended; `broke`: because its connection broke.
  void Unparked(const WorkerSession& session, bool broke, double now_s, absl::Time now);
  // A parked call was ended by the coordinator, so this is no sign of life.
  void Dismissed(const WorkerSession& session);
  // The session has deregistered.
  void Forget(const WorkerSession& session);

  // Returns the sessions lost since the last call.
  std::vector<WorkerSession> TakeLost(absl::Time now);
  // Returns the sessions that became silent since the last call: not heard of for longer than a lease
  // duration.
  std::vector<WorkerSession> TakeSilent(double now_s);
  // Removes and returns the sessions not heard of, nor noted, for longer than `after_s`.
  std::vector<WorkerSession> TakeAbandoned(double now_s, double after_s);
  absl::Time NextLoss() const;  // InfiniteFuture if no loss is pending

  std::vector<WorkerSession> Live(double now_s) const;
  struct Seen {
    double last_s = 0;   // 0: never
    bool silent = true;  // for longer than a lease duration
  };
  Seen Find(const std::string& worker, double now_s) const;

  // Return true the first time for a session: each draining session is told once.
  bool TellDrainToPoll(const WorkerSession& session);
  bool TellDrainToRenewal(const WorkerSession& session);

 private:
  struct Entry {
    std::int64_t epoch = 0;
    double noted_s = 0;
    double last_s = 0;
    int parked = 0;
    std::optional<absl::Time> lost_at;  // unless heard of before
    bool lost = false;
    bool silent = false;  // already reported by TakeSilent
    bool poll_told = false;
    bool renewal_told = false;
  };
  Entry* Current(const WorkerSession& session);

  const double lease_duration_s_;
  const absl::Duration grace_;
  std::map<std::string, Entry> workers_;
};

}  // namespace autocfg::server
