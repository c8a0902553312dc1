#include "search/planner/recalibrated_chances.h"

#include <cmath>

#include "search/planner/recalibration/recalibration.h"

namespace autocfg {

std::vector<double> RecalibratedChances::ChanceOfAnyFrom(const std::vector<CandidatePlan>& candidates,
                                                         const std::vector<std::size_t>& of,
                                                         double seconds) const {
  std::vector<Recalibration::Threshold> thresholds;
  thresholds.reserve(of.size());
  for (const std::size_t i : of) {
    const Prediction& raw = state_.records[i].raw;
    thresholds.push_back({.plan = &candidates[i].plan,
                          .predicted = &raw.breakdown,
                          .log_ratio = std::log(seconds / raw.step_time_s)});
  }
  return state_.recalibration.ChanceOfAnyFrom(thresholds);
}

}  // namespace autocfg
