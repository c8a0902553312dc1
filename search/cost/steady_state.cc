#include "search/cost/steady_state.h"

namespace autocfg {

StepSeconds ExtendSteadyState(std::int64_t microbatches, std::int64_t period, double least_s,
                              const std::function<StepSeconds(std::int64_t)>& simulate) {
  constexpr double kRounding = 1e-9;
  const std::int64_t rest = microbatches % period;
  for (std::int64_t periods = 2;; periods *= 2) {
    const std::int64_t fewer = rest + periods * period, more = fewer + period;
    if (more >= microbatches) return simulate(microbatches);
    const StepSeconds a = simulate(fewer), b = simulate(more);
    if (b.step_s - a.step_s < least_s * static_cast<double>(period) * (1 - kRounding)) continue;
    const double further = static_cast<double>((microbatches - more) / period);
    return {b.step_s + further * (b.step_s - a.step_s), b.pipeline_end_s + further * (b.pipeline_end_s - a.pipeline_end_s)};
  }
}

}  // namespace autocfg
