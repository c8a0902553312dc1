#include "search/planner/recalibration/corrected_prediction.h"

#include <cmath>

namespace autocfg {
namespace {

constexpr double kNinetyPercent = 1.645;

}  // namespace

void Scale(Prediction& p, double factor) {
  p.breakdown.Scale(factor);
  if (p.hidden_comm_s) *p.hidden_comm_s *= factor;
  p.step_time_s *= factor;
  p.step_time_low_s = p.step_time_high_s = p.step_time_s;
}

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
