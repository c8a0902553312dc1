#include "search/training_time/checkpoint_interval.h"

#include <cmath>
#include <limits>

namespace autocfg {

double JobMtbfSeconds(double node_mtbf_s, double nodes) { return node_mtbf_s / nodes; }

double BestCheckpointInterval(const FailureTimes& times) {
  const double m = times.mtbf_s, delta = times.checkpoint_s;
  if (std::isinf(m)) return std::numeric_limits<double>::infinity();
  if (delta >= 2 * m) return m;
  const double x = delta / (2 * m);
  return std::sqrt(2 * delta * m) * (1 + std::sqrt(x) / 3 + x / 9) - delta;
}

double ExpectedSlowdown(const FailureTimes& times, double interval_s) {
  const double m = times.mtbf_s;
  if (std::isinf(m)) return std::isinf(interval_s) ? 1 : 1 + times.checkpoint_s / interval_s;
  return m / interval_s * std::exp(times.restart_s / m) * std::expm1((interval_s + times.checkpoint_s) / m);
}

bool Progresses(const FailureTimes& times) {
  return times.mtbf_s > times.checkpoint_s &&
         std::isfinite(ExpectedSlowdown(times, BestCheckpointInterval(times)));
}

}  // namespace autocfg
