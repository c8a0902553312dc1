#include "search/cost/steady_state.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "search/schedule/interleaved.h"

namespace autocfg {
namespace {

// Forwards of a rank, over all its chunks, before backwards alternate with them.
std::int64_t Ahead(const ParallelPlan& plan, std::int64_t rank, std::int64_t microbatches) {
  switch (plan.schedule) {
    case Schedule::kGPipe: return 0;  // its forwards and its backwards each are steady for themselves
    case Schedule::kInterleaved: return InterleavedWarmUp(rank, plan.pp, plan.virtual_stages, microbatches);
    default: return std::min(microbatches, plan.pp - 1 - rank);
  }
}

// By how much the last `window` of `ends` are later than the `window` before, each one than its counterpart;
// empty where that differs.
class Shift {
 public:
  void Add(std::span<const double> ends, std::int64_t window) {
    const auto n = static_cast<std::size_t>(window);
    const double* const last = ends.data() + ends.size() - n;
    for (std::size_t i = 0; i < n; ++i) {
      const double by = last[i] - *(last + i - n);
      if (!by_) by_ = by;
      if (std::abs(by - *by_) > kRounding * last[i]) differs_ = true;
    }
  }
  std::optional<double> Get() const { return differs_ ? std::nullopt : by_; }

 private:
  static constexpr double kRounding = 1e-12;
  std::optional<double> by_;
  bool differs_ = false;
};

// What a further period of microbatches adds to the run; empty where it is not steady.
std::optional<double> PeriodSeconds(const ParallelPlan& plan, std::int64_t microbatches, std::int64_t period,
                                    const PipelineRun& run) {
  Shift forwards, backwards;
  const std::int64_t window = period * plan.virtual_stages;
  for (std::int64_t r = 0; r < plan.pp; ++r) {
    const ComputeEnds& rank = run.ranks[static_cast<std::size_t>(r)];
    const std::int64_t alternating =
        static_cast<std::int64_t>(rank.backwards.size()) - Ahead(plan, r, microbatches);
    forwards.Add(rank.forwards, window);
    (plan.schedule == Schedule::kGPipe ? backwards : forwards)
        .Add(std::span(rank.backwards).first(static_cast<std::size_t>(alternating)), window);
  }
  if (plan.schedule != Schedule::kGPipe) return forwards.Get();
  if (!forwards.Get() || !backwards.Get()) return std::nullopt;
  return *forwards.Get() + *backwards.Get();
}

}  // namespace

PipelineRun ExtendSteadyState(const ParallelPlan& plan, std::int64_t microbatches,
                              const std::function<PipelineRun(std::int64_t)>& run) {
  // The order of stages repeats after a group of pp microbatches, the use of buffers after two computes.
  const std::int64_t period = plan.pp % 2 == 0 ? plan.pp : 2 * plan.pp;
  // Long enough for two periods between the first forwards and the last backwards of every rank.
  const std::int64_t ahead = Ahead(plan, 0, microbatches);
  std::int64_t fewer = microbatches % period + 2 * period;
  while ((fewer - 2 * period) * plan.virtual_stages < ahead) fewer += period;
  for (;; fewer += (fewer / period) * period) {
    if (fewer >= microbatches) return run(microbatches);
    PipelineRun steady = run(fewer);
    const std::optional<double> period_s = PeriodSeconds(plan, fewer, period, steady);
    if (!period_s) continue;
    const double further = *period_s * static_cast<double>((microbatches - fewer) / period);
    steady.step_s += further;
    steady.pipeline_end_s += further;
    return steady;
  }
}

}  // namespace autocfg
