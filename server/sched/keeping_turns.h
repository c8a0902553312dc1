// Bounds the time for which a job that waits for busy workers keeps later jobs from them: until the time
// limits of the jobs that ran when it began to wait have passed. If it could not start by then, a worker that
// it counts on does not take part. Later jobs may then pass it for the same time, and so on in turns, so that
// neither waits forever. Not thread-safe.
#pragma once

#include <optional>

#include "server/store/records.h"

namespace autocfg::server {

class KeepingTurns {
 public:
  // Returns whether jobs that wait keep later jobs from workers at `now_s` (LeaseJobs).
  bool Keeps(double now_s);
  // Call after each call of LeaseJobs.
  void Assigned(const Assignment& assignment, double now_s);

 private:
  struct Turn {
    JobKey job;  // the oldest one that waits
    bool keeps = true;
    double begin_s = 0;
    double end_s = 0;
  };
  std::optional<Turn> turn_;  // empty: no job waits
};

}  // namespace autocfg::server
