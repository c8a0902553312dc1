#include "worker/launcher/failure_verdict.h"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace autocfg::worker {
namespace {

constexpr int kCauseWeight = 2;

// How likely a failure is to be the cause; greater is likelier.
int WeightOf(const RankFailure& failure) {
  if (failure.kind == v1::FAILURE_KIND_PEER) return 0;
  return failure.aborted ? 1 : kCauseWeight;
}

}  // namespace

v1::Outcome OutcomeOf(const v1::RankError& error) {
  return error.code() == "RESOURCE_EXHAUSTED" ? v1::OUTCOME_OUT_OF_MEMORY : v1::OUTCOME_FAILED;
}

v1::FailureKind FailureKindOf(const v1::RankError& error) {
  return error.code() == "UNAVAILABLE" ? v1::FAILURE_KIND_PEER : v1::FAILURE_KIND_OWN;
}

bool IsBadInput(const v1::RankError& error) {
  return error.code() == "INVALID_ARGUMENT" || error.code() == "UNIMPLEMENTED";
}

bool FailureVerdict::cause_known() const { return failed() && WeightOf(*failure_) == kCauseWeight; }

void FailureVerdict::Add(RankFailure failure) {
  peer_gone_ = peer_gone_ || failure.kind == v1::FAILURE_KIND_PEER;
  if (failed() && WeightOf(failure) <= WeightOf(*failure_)) return;
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
  result.failure = peer_gone_ && failure_->aborted ? v1::FAILURE_KIND_PEER : failure_->kind;
}

std::string DescribeExit(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exit status {}", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  const char* description = ::sigdescr_np(signal);
  return fmt::format("killed by signal {}{}", signal, description ? fmt::format(" ({})", description) : "");
}

}  // namespace autocfg::worker
