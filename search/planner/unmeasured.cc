#include <cmath>
#include <cstddef>
#include <vector>

#include "base/statistics.h"
#include "search/cost/op_times/line_fit.h"
#include "search/planner/search_state.h"
#include "search/planner/slice.h"

namespace autocfg {
namespace {

// Returns the geometric mean of the correction factors of all candidates. Applied to plans that are not
// candidates.
double MeanCorrection(const SearchState& s) {
  if (s.candidates.empty()) return 1;
  double sum = 0;
  for (std::size_t i = 0; i < s.candidates.size(); ++i) {
    sum += std::log(s.candidates[i].predicted.step_time_s / s.records[i].raw.step_time_s);
  }
  return std::exp(sum / static_cast<double>(s.candidates.size()));
}

}  // namespace

double UnmeasuredDeviceSeconds(const SearchState& s) {
  // A trial takes a fixed start-up time plus time in proportion to its step. Both are fitted to the trials so
  // far.
  std::vector<TimedSize> trials;
  for (const SearchState::Record& r : s.records) {
    if (r.first_steps > 0) trials.push_back({base::Median(r.steps), r.first_device_s});
  }
  if (trials.empty()) return 0;
  // The line's x is the step time here, in seconds.
  const LinkModel trial = FitLine(trials);
  double sum = 0;
  std::vector<bool> is_candidate(s.feasible.plans.size());
  for (std::size_t i = 0; i < s.candidates.size(); ++i) {
    const CandidatePlan& c = s.candidates[i];
    is_candidate[s.records[i].feasible] = true;
    if (s.records[i].first_steps > 0 || c.failed) continue;
    double seconds = c.predicted.step_time_s;
    if (s.IsSlice(c.plan)) {
      const double factor = seconds / s.records[i].raw.step_time_s;
      seconds = factor * SliceSeconds(*s.costs, c.plan, ChooseSlice(*s.costs, c.plan).pipeline);
    }
    sum += trial.Seconds(seconds);
  }
  const double factor = MeanCorrection(s);
  for (std::size_t i = 0; i < s.feasible.plans.size(); ++i) {
    if (is_candidate[i]) continue;
    double seconds = s.feasible.plans[i].seconds;
    const ParallelPlan plan = s.feasible.PlanAt(i);
    if (s.IsSlice(plan)) seconds = SliceSeconds(*s.costs, plan, ChooseSlice(*s.costs, plan).pipeline);
    sum += trial.Seconds(factor * seconds);
  }
  return sum;
}

}  // namespace autocfg
