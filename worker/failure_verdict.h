// Which of several ranks' failures is the cause of a job's end. When a rank dies, its peers soon fail, too,
// since it is gone; their errors must not hide its own. Plain values; use from one thread.
#pragma once

#include <optional>
#include <string>

#include "autocfg/v1/trainer.pb.h"
#include "worker/process_launcher.h"

namespace autocfg {

struct RankFailure {
  int rank = -1;
  std::string message;  // its own, without the rank
  v1::RankError error;  // where it sent one
};

class FailureVerdict {
 public:
  // In the order in which they are seen. Only the first of each rank counts.
  void Add(RankFailure failure);

  bool failed() const { return consequence_.has_value() || cause_.has_value(); }
  // A failure that no other rank's end explains: anything but an error that says UNAVAILABLE.
  bool cause_known() const { return cause_.has_value(); }

  // Sets outcome, message, first_failed_rank and error. Requires: failed().
  void Tell(JobResult& result) const;

 private:
  std::optional<RankFailure> consequence_;  // the first
  std::optional<RankFailure> cause_;        // the first
};

// How a process ended: "killed by signal 9 (Killed)", "exit status 5".
std::string DescribeExit(int wait_status);

}  // namespace autocfg
