// Short names of enumerators for messages, logs and reports. Pure functions, thread-safe.
#pragma once

#include <string>

#include "absl/strings/ascii.h"
#include "autocfg/v1/study_service.pb.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg {

// Returns the API's name without the prefix of its type, for example "TIMED_OUT" for TRIAL_STATE_TIMED_OUT;
// for a value unknown to this build, the number.
std::string ShortName(v1::StudyState state);
std::string ShortName(v1::TrialState state);
std::string ShortName(v1::Outcome outcome);
std::string ShortName(v1::WorkerState state);

// Returns that name in lower case, for people and JSON: "timed_out".
template <typename State>
std::string StateText(State state) {
  return absl::AsciiStrToLower(ShortName(state));
}

}  // namespace autocfg
