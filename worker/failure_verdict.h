// Which of several ranks' failures is the cause of a job's end. When a rank dies, its peers soon fail, too,
// since it is gone; their errors must not hide its own. Plain values; use from one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autocfg/v1/trainer.pb.h"
#include "autocfg/v1/worker_service.pb.h"
#include "worker/process_launcher.h"

namespace autocfg {

// How likely a failure is to be the cause, from the least.
enum class FailureWeight : std::uint8_t {
  kPeerGone,  // the rank says itself that a peer or the launcher is gone (UNAVAILABLE)
  kAborted,   // ended by abort(): its own assertion, or UCX's answer to reading a dead peer's memory
  kCause,     // no other rank's end explains it
};

struct RankFailure {
  int rank = -1;  // of the whole job; -1: of all that run here
  FailureWeight weight = FailureWeight::kCause;
  std::string message;       // its own, without the rank
  v1::RankError error = {};  // where it sent one
  v1::FailureKind kind = v1::FAILURE_KIND_OWN;
};

class FailureVerdict {
 public:
  // In the order in which they are seen: the first of the greatest weight is it.
  void Add(RankFailure failure);

  bool failed() const { return failure_.has_value(); }
  bool cause_known() const { return failed() && failure_->weight == FailureWeight::kCause; }

  // Sets outcome, message (one line), first_failed_rank, error and failure. Requires: failed().
  void Tell(JobResult& result) const;

 private:
  std::optional<RankFailure> failure_;
  bool peer_gone_ = false;  // somebody said so
};

// How a process ended: "killed by signal 9 (Killed)", "exit status 5".
std::string DescribeExit(int wait_status);

}  // namespace autocfg
