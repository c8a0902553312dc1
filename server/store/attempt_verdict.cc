#include "server/store/attempt_verdict.h"

#include <algorithm>

namespace autocfg::server {
namespace {

ShareEnd EndOfFailure(v1::FailureKind failure) {
  switch (failure) {
    case v1::FAILURE_KIND_PROCESS: return ShareEnd::kFailedByProcess;
    case v1::FAILURE_KIND_PEER: return ShareEnd::kFailedByPeer;
    case v1::FAILURE_KIND_UNSPECIFIED:
    case v1::FAILURE_KIND_OWN:
    case v1::FailureKind_INT_MIN_SENTINEL_DO_NOT_USE_:
    case v1::FailureKind_INT_MAX_SENTINEL_DO_NOT_USE_: break;
  }
  return ShareEnd::kFailed;
}

}  // namespace

ShareEnd EndOf(v1::Outcome outcome, v1::FailureKind failure, bool stopping) {
  switch (outcome) {
    case v1::OUTCOME_MEASURED: return ShareEnd::kMeasured;
    case v1::OUTCOME_OUT_OF_MEMORY: return ShareEnd::kOutOfMemory;
    case v1::OUTCOME_FAILED: return EndOfFailure(failure);
    case v1::OUTCOME_TIMED_OUT: return ShareEnd::kTimedOut;
    case v1::OUTCOME_CANCELLED: return stopping ? ShareEnd::kStopped : ShareEnd::kCancelled;
    case v1::OUTCOME_REFUSED: return ShareEnd::kRefused;
    case v1::OUTCOME_UNSPECIFIED:
    case v1::Outcome_INT_MIN_SENTINEL_DO_NOT_USE_:
    case v1::Outcome_INT_MAX_SENTINEL_DO_NOT_USE_: break;
  }
  return ShareEnd::kRuns;
}

v1::TrialState StateOf(ShareEnd end) {
  switch (end) {
    case ShareEnd::kRuns: return v1::TRIAL_STATE_RUNNING;
    case ShareEnd::kMeasured: return v1::TRIAL_STATE_MEASURED;
    case ShareEnd::kOutOfMemory: return v1::TRIAL_STATE_INFEASIBLE;
    case ShareEnd::kFailed:
    case ShareEnd::kFailedByProcess:
    case ShareEnd::kFailedByPeer: return v1::TRIAL_STATE_FAILED;
    case ShareEnd::kTimedOut: return v1::TRIAL_STATE_TIMED_OUT;
    case ShareEnd::kRefused:
    case ShareEnd::kLost:
    case ShareEnd::kWithdrawn: return v1::TRIAL_STATE_LOST;
    case ShareEnd::kCancelled:
    case ShareEnd::kStopped: return v1::TRIAL_STATE_CANCELLED;
  }
  return v1::TRIAL_STATE_UNSPECIFIED;
}

v1::TrialState LastStateOf(ShareEnd end) {
  return end == ShareEnd::kCancelled ? v1::TRIAL_STATE_LOST : StateOf(end);
}

bool Breaks(ShareEnd end) { return end != ShareEnd::kRuns && end != ShareEnd::kMeasured; }

AttemptVerdict VerdictOf(std::span<const ShareEnd> ends) {
  const auto decisive = std::min_element(ends.begin(), ends.end());
  AttemptVerdict verdict;
  verdict.decisive = static_cast<std::size_t>(decisive - ends.begin());
  verdict.end = *decisive;
  switch (verdict.end) {
    case ShareEnd::kFailedByProcess:
    case ShareEnd::kFailedByPeer:
    case ShareEnd::kRefused:
    case ShareEnd::kLost:
    case ShareEnd::kCancelled:
      verdict.again = true;
      verdict.costs = true;
      break;
    case ShareEnd::kWithdrawn:
    case ShareEnd::kStopped: verdict.again = true; break;
    case ShareEnd::kRuns:
    case ShareEnd::kOutOfMemory:
    case ShareEnd::kFailed:
    case ShareEnd::kTimedOut:
    case ShareEnd::kMeasured: break;
  }
  return verdict;
}

}  // namespace autocfg::server
