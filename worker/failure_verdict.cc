#include "worker/failure_verdict.h"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace autocfg {
namespace {

JobOutcome OutcomeOf(const v1::RankError& error) {
  if (error.code() == "RESOURCE_EXHAUSTED") return JobOutcome::kOutOfMemory;
  if (error.code() == "INVALID_ARGUMENT" || error.code() == "UNIMPLEMENTED") return JobOutcome::kBadInput;
  return JobOutcome::kFailed;
}

}  // namespace

void FailureVerdict::Add(RankFailure failure) {
  std::optional<RankFailure>& first = failure.error.code() == "UNAVAILABLE" ? consequence_ : cause_;
  if (first) return;
  std::replace(failure.message.begin(), failure.message.end(), '\n', ' ');
  first = std::move(failure);
}

void FailureVerdict::Tell(JobResult& result) const {
  const RankFailure& failure = cause_ ? *cause_ : *consequence_;
  result.outcome = OutcomeOf(failure.error);
  result.message = fmt::format("rank {}: {}", failure.rank, failure.message);
  result.first_failed_rank = failure.rank;
  result.error = failure.error;
}

std::string DescribeExit(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exit status {}", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  const char* description = ::sigdescr_np(signal);
  return fmt::format("killed by signal {}{}", signal, description ? fmt::format(" ({})", description) : "");
}

}  // namespace autocfg
