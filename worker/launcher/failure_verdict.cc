#include "worker/launcher/failure_verdict.h"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace autocfg::worker {
namespace {

JobOutcome OutcomeOf(const v1::RankError& error) {
  if (error.code() == "RESOURCE_EXHAUSTED") return JobOutcome::kOutOfMemory;
  if (error.code() == "INVALID_ARGUMENT" || error.code() == "UNIMPLEMENTED") return JobOutcome::kBadInput;
  return JobOutcome::kFailed;
}

}  // namespace

void FailureVerdict::Add(RankFailure failure) {
  peer_gone_ = peer_gone_ || failure.weight == FailureWeight::kPeerGone;
  if (failed() && failure.weight <= failure_->weight) return;
  std::replace(failure.message.begin(), failure.message.end(), '\n', ' ');
  failure_ = std::move(failure);
}

void FailureVerdict::Tell(JobResult& result) const {
  result.outcome = OutcomeOf(failure_->error);
  result.message =
      failure_->rank < 0 ? failure_->message : fmt::format("rank {}: {}", failure_->rank, failure_->message);
  result.first_failed_rank = failure_->rank;
  result.error = failure_->error;
  // A rank that aborts while others report a missing peer has most likely lost the same peer.
  result.failure =
      peer_gone_ && failure_->weight == FailureWeight::kAborted ? v1::FAILURE_KIND_PEER : failure_->kind;
}

std::string DescribeExit(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exit status {}", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  const char* description = ::sigdescr_np(signal);
  return fmt::format("killed by signal {}{}", signal, description ? fmt::format(" ({})", description) : "");
}

}  // namespace autocfg::worker
