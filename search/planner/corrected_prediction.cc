#include <cmath>

#include "search/planner/recalibration.h"
#include "search/planner/shortlist.h"

namespace autocfg {
namespace {

constexpr double kNinetyPercent = 1.645;

}  // namespace

void SetInterval(Prediction& p, double sigma) {
  const double spread = std::exp(kNinetyPercent * sigma);
  p.step_time_low_s = p.step_time_s / spread;
  p.step_time_high_s = p.step_time_s * spread;
}

Prediction Corrected(Prediction p, const Correction& correction) {
  Scale(p, std::exp(correction.log_mean));
  SetInterval(p, correction.sigma);
  return p;
}

}  // namespace autocfg
