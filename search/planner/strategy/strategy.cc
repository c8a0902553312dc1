#include "search/planner/strategy/strategy.h"

namespace autocfg {

bool IsDominated(const std::vector<CandidatePlan>& candidates, std::size_t i) {
  for (i = candidates[i].recomputes_less; i != kNoCandidate; i = candidates[i].recomputes_less) {
    if (!candidates[i].failed) return true;
  }
  return false;
}

}  // namespace autocfg
