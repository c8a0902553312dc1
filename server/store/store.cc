#include "server/store/store.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "proto/rpc/call.h"

namespace autocfg::server {

absl::Status NoSpace(const std::string& message) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kAnswersUnavailable, absl::Cord());
  return status;
}

bool IsNoSpace(const absl::Status& status) { return status.GetPayload(kAnswersUnavailable).has_value(); }

bool IsEnd(v1::StudyState state) {
  return std::find(kStudyEndStates.begin(), kStudyEndStates.end(), state) != kStudyEndStates.end();
}

bool IsEnd(v1::TrialState state) {
  switch (state) {
    case v1::TRIAL_STATE_MEASURED:
    case v1::TRIAL_STATE_INFEASIBLE:
    case v1::TRIAL_STATE_FAILED:
    case v1::TRIAL_STATE_TIMED_OUT:
    case v1::TRIAL_STATE_CANCELLED:
    case v1::TRIAL_STATE_LOST: return true;
    case v1::TRIAL_STATE_UNSPECIFIED:
    case v1::TRIAL_STATE_QUEUED:
    case v1::TRIAL_STATE_RUNNING:
    case v1::TrialState_INT_MIN_SENTINEL_DO_NOT_USE_:
    case v1::TrialState_INT_MAX_SENTINEL_DO_NOT_USE_: break;
  }
  return false;
}

}  // namespace autocfg::server
