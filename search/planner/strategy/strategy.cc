#include "search/planner/strategy/strategy.h"

namespace autocfg {

bool IsDominated(const std::vector<CandidatePlan>& candidates, std::size_t i) {
  for (i = candidates[i].less_work; i != kNoCandidate; i = candidates[i].less_work) {
    if (!candidates[i].failed) return true;
  }
  return false;
}

}  // namespace autocfg
