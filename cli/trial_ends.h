// How the trials of a search ended: what its answer rests on. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autocfg/v1/study_service.pb.h"

namespace autocfg {

struct TrialEnds {
  std::int64_t answered = 0;                        // measured, or found not to fit
  std::int64_t without_answer = 0;                  // failed, timed out, lost
  std::map<std::string, std::int64_t> states = {};  // of those without an answer, by their names
  std::string first = {};                           // what the first of them said
};

TrialEnds EndsOf(const std::vector<v1::Trial>& trials);

// "2 of 5 trials gave no answer (failed 1, timed out 1): rank 0: ..."; empty where all did.
std::string TextOf(const TrialEnds& ends);

}  // namespace autocfg
