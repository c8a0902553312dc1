// Finds the failure that caused a job's end among the failures of its ranks. After a rank dies, its peers
// soon fail because it is gone; their errors must not hide the original one. Plain values; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autocfg/v1/trainer.pb.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/launcher/process_launcher.h"

namespace autocfg::worker {

// How likely a failure is to be the cause, in ascending order.
enum class FailureWeight : std::uint8_t {
  kPeerGone,  // the rank reports that a peer or the launcher is gone (UNAVAILABLE)
  kAborted,   // ended by abort(): its own assertion, or UCX's reaction to reading a dead peer's memory
  kCause,     // not explained by another rank's end
};

struct RankFailure {
  int rank = -1;  // in the whole job; -1: all ranks that run here
  FailureWeight weight = FailureWeight::kCause;
  std::string message;       // the rank's own message, without its number
  v1::RankError error = {};  // set if the rank sent one
  v1::FailureKind kind = v1::FAILURE_KIND_OWN;
};

class FailureVerdict {
 public:
  // Add failures in the order of detection. The first of the greatest weight wins.
  void Add(RankFailure failure);

  bool failed() const { return failure_.has_value(); }
  bool cause_known() const { return failed() && failure_->weight == FailureWeight::kCause; }

  // Sets outcome, message (one line), first_failed_rank, error and failure. Requires: failed().
  void Tell(JobResult& result) const;

 private:
  std::optional<RankFailure> failure_;
  bool peer_gone_ = false;  // some rank reported a missing peer
};

// Describes how a process ended: "killed by signal 9 (Killed)", "exit status 5".
std::string DescribeExit(int wait_status);

}  // namespace autocfg::worker
