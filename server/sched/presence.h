// Which workers are there: what was last heard of each session, and whether a call of it is parked. Not
// thread-safe; its owner guards it.
//
// Two clocks: `now_s` is Unix time by the coordinator's clock; `now` is real time, for how long a broken
// connection may stay so.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/store/store.h"

namespace autocfg {

class Presence {
 public:
  // A session counts as live while a call of it is parked and `lease_duration_s` twice after the last word of
  // it. Where the connection of its last parked call breaks and nothing is heard for `grace`, it is lost.
  Presence(double lease_duration_s, absl::Duration grace)
      : lease_duration_s_(lease_duration_s), grace_(grace) {}

  // A session that the store knows of and that nothing was heard of yet; where a call of the worker came
  // first, nothing is changed.
  void Note(const WorkerSession& session, double now_s);
  // A call of this session. False: a later session of the worker is known, and nothing is changed.
  bool Heard(const WorkerSession& session, double now_s);
  // A call of it is parked from here on, after Heard().
  void Parked(const WorkerSession& session);
  // A parked call of it has ended; `broke`: because its connection did.
  void Unparked(const WorkerSession& session, bool broke, double now_s, absl::Time now);
  // A parked call of it was ended without a word of it.
  void Dismissed(const WorkerSession& session);
  // It has deregistered.
  void Forget(const WorkerSession& session);

  // Sessions that are lost since the last time.
  std::vector<WorkerSession> TakeLost(absl::Time now);
  // Sessions that have fallen silent since the last time: nothing was heard of them for longer than a lease
  // lasts.
  std::vector<WorkerSession> TakeSilent(double now_s);
  // Sessions of which nothing was heard for longer than `after_s`, nor since they were noted. They are
  // forgotten.
  std::vector<WorkerSession> TakeAbandoned(double now_s, double after_s);
  absl::Time NextLoss() const;  // infinitely far away where none is in sight

  std::vector<WorkerSession> Live(double now_s) const;
  struct Seen {
    double last_s = 0;   // 0: never
    bool silent = true;  // for longer than a lease lasts
  };
  Seen Find(const std::string& worker, double now_s) const;

  // What a draining session is told, once each: true the first time.
  bool TellDrainToPoll(const WorkerSession& session);
  bool TellDrainToRenewal(const WorkerSession& session);

 private:
  struct Entry {
    std::int64_t epoch = 0;
    double noted_s = 0;
    double last_s = 0;
    int parked = 0;
    std::optional<absl::Time> lost_at;  // unless something is heard before
    bool lost = false;
    bool silent = false;  // and that has been told
    bool poll_told = false;
    bool renewal_told = false;
  };
  Entry* Current(const WorkerSession& session);

  const double lease_duration_s_;
  const absl::Duration grace_;
  std::map<std::string, Entry> workers_;
};

}  // namespace autocfg
