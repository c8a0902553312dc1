// Summarizes how the trials of a search ended. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autocfg/v1/study_service.pb.h"

namespace autocfg::cli {

struct TrialEnds {
  std::int64_t answered = 0;                        // measured, or found not to fit
  std::int64_t without_answer = 0;                  // failed, timed out, lost
  std::map<std::string, std::int64_t> states = {};  // counts of those without an answer, by state name
  std::string first = {};                           // message of the first one without an answer
};

TrialEnds EndsOf(const std::vector<v1::Trial>& trials);

// Returns "2 of 5 trials gave no answer (failed 1, timed out 1): rank 0: ..."; empty if all gave one.
std::string TextOf(const TrialEnds& ends);

}  // namespace autocfg::cli
