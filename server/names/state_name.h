// State names for messages and logs: the API's names without their prefix. Pure, thread-safe.
#pragma once

#include <string>

#include "autocfg/v1/study_service.pb.h"

namespace autocfg::server {

// Returns, for example, "DONE"; for a value unknown to this build, the number.
std::string StateName(v1::StudyState state);
std::string StateName(v1::TrialState state);

}  // namespace autocfg::server
