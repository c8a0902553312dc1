// What messages and the log call a state: the API's name without its prefix. Pure, thread-safe.
#pragma once

#include <string>

#include "autocfg/v1/study_service.pb.h"

namespace autocfg {

// "DONE"; of a number that this build does not know, the number.
std::string StateName(v1::StudyState state);
std::string StateName(v1::TrialState state);

}  // namespace autocfg
