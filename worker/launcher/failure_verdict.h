// What the ends of a job's ranks mean for the job. Finds the failure that caused the job's end among those of
// its ranks: after a rank dies, its peers soon fail because it is gone, and their errors must not hide the
// original one. Plain values; not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "autocfg/v1/trainer.pb.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/launcher/process_launcher.h"

namespace autocfg::worker {

// A rank's own error (RankError.code in trainer.proto) in the terms of a report.
v1::Outcome OutcomeOf(const v1::RankError& error);          // OUT_OF_MEMORY or FAILED
v1::FailureKind FailureKindOf(const v1::RankError& error);  // PEER or OWN
bool IsBadInput(const v1::RankError& error);                // the job asks for something impossible

struct RankFailure {
  int rank = -1;  // in the whole job; -1: all ranks that run here
  v1::FailureKind kind = v1::FAILURE_KIND_OWN;
  // Ended by abort(): by its own assertion, or by UCX's reaction to reading a dead peer's memory.
  bool aborted = false;
  std::string message = {};  // the rank's own message, without its number
  v1::RankError error = {};  // set if the rank sent one
};

class FailureVerdict {
 public:
  // Add failures in the order of detection. The first of the likeliest ones wins: failures that no other
  // rank's end explains, then aborts, then those because a peer is gone.
  void Add(RankFailure failure);

  bool failed() const { return failure_.has_value(); }
  bool cause_known() const;  // a failure that no other rank's end explains

  // Sets outcome, failure, message (one line), first_failed_rank and error. Requires: failed().
  void Tell(JobResult& result) const;

 private:
  std::optional<RankFailure> failure_;
  bool peer_gone_ = false;  // some rank reported a missing peer
};

// Describes how a process ended: "killed by signal 9 (Killed)", "exit status 5".
std::string DescribeExit(int wait_status);

}  // namespace autocfg::worker
