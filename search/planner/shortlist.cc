#include "search/planner/shortlist.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_text.h"
#include "search/planner/recalibration/corrected_prediction.h"

namespace autocfg {
namespace {

constexpr std::size_t kFirstTimed = 64, kMostTimed = 256;
constexpr std::size_t kSettled = 16;
constexpr std::int64_t kMostTimedActions = 1'500'000;

// Returns the assumed cost of timing a plan, regardless of what the timer skips: the actions of one pipeline.
std::int64_t TimedActions(const Workload& workload, const ParallelPlan& plan) {
  return plan.pp * (6 * MicrobatchCount(workload, plan) * plan.virtual_stages + 5);
}

absl::Status Look(const PlanningWatch& watch, const FeasiblePlans& feasible) {
  const PlanningProgress progress{.enumerated = feasible.enumerated,
                                  .fit = static_cast<std::int64_t>(feasible.plans.size())};
  return watch && !watch(progress) ? PlanningStopped(progress) : absl::OkStatus();
}

// Sets the times of all plans by the closed form, or by the timer where it is not close, of their fastest
// choices. `at_least`: sets their lower bounds.
absl::Status EstimateTimes(CostModel& costs, FeasiblePlans& feasible, bool at_least,
                           const PlanningWatch& watch) {
  WatchPace pace;
  for (std::size_t i = 0; i < feasible.plans.size(); ++i) {
    FeasiblePlan& timed = feasible.plans[i];
    constexpr std::size_t kPlansPerPace = 16;
    if (i % kPlansPerPace == 0 && pace.Due(feasible.PlanAt(i), kPlansPerPace))
      AUTOCFG_RETURN_IF_ERROR(Look(watch, feasible));
    if (at_least) {
      SetFirstBound(costs, feasible, i);
      continue;
    }
    timed.seconds = TakeFastestChoice(costs, feasible, i);
    timed.timed = true;
    if (std::isfinite(timed.seconds) && timed.seconds > 0) continue;
    return absl::InvalidArgumentError(
        fmt::format("the calibration gives no time for plan {}; run it again", PlanText(feasible.PlanAt(i))));
  }
  return absl::OkStatus();
}

class Timings {
 public:
  Timings(CostModel& costs, FeasiblePlans& feasible, TimedPlans& timed, const PlanningWatch& watch)
      : costs_(costs), feasible_(feasible), timed_(timed), watch_(watch) {}

  bool full() const { return timed_.size() >= kMostTimed; }

  // Times plan `i`, unless it is timed already or the budget is used up.
  absl::Status Add(std::size_t i) {
    if (full() || timed_.contains(i)) return absl::OkStatus();
    const ParallelPlan plan = feasible_.PlanAt(i);
    const std::int64_t actions = TimedActions(costs_.workload(), plan);
    if (actions > kMostTimedActions - actions_) return absl::OkStatus();
    actions_ += actions;
    AUTOCFG_RETURN_IF_ERROR(Look(watch_, feasible_));
    try {
      const Prediction& p = timed_[i] = costs_.Predict(plan);
      feasible_.plans[i].seconds = p.step_time_s;
    } catch (const std::logic_error& error) {
      return absl::InternalError(fmt::format("plan {}: {}", PlanText(plan), error.what()));
    }
    return absl::OkStatus();
  }

 private:
  CostModel& costs_;
  FeasiblePlans& feasible_;
  TimedPlans& timed_;
  const PlanningWatch& watch_;
  std::int64_t actions_ = 0;
};

}  // namespace

absl::StatusOr<TimedPlans> PredictTimes(CostModel& costs, FeasiblePlans& feasible, const PlanningWatch& watch,
                                        LazyTimes* lazy) {
  std::vector<FeasiblePlan>& plans = feasible.plans;
  AUTOCFG_RETURN_IF_ERROR(EstimateTimes(costs, feasible, lazy != nullptr, watch));
  // Only plans that do the least work are considered here.
  std::vector<PlansByTime::Entry> least;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].less_work == kNoPlan)
      least.push_back({plans[i].seconds, static_cast<std::uint32_t>(i), plans[i].timed});
  }
  PlansByTime fastest(std::move(least));
  std::int64_t looked = 0;
  // Returns the fastest plan that is left, whose time is known; nothing if none is left, or if the watch said
  // no.
  absl::Status stopped;
  const LazyTimes unscaled;
  const auto next_fastest = [&]() -> std::optional<PlansByTime::Entry> {
    while (!fastest.empty()) {
      PlansByTime::Entry next = fastest.Pop();
      if (next.timed) return next;
      constexpr std::int64_t kEstimatesPerLook = 64;
      if (++looked % kEstimatesPerLook == 0) stopped = Look(watch, feasible);
      if (!stopped.ok()) return std::nullopt;
      next.timed = !unscaled.RaiseBound(costs, feasible, next.plan);
      next.seconds = next.timed ? unscaled.Time(costs, feasible, next.plan) : plans[next.plan].seconds;
      fastest.Push(next);
    }
    return std::nullopt;
  };

  TimedPlans timed;
  Timings timings(costs, feasible, timed, watch);
  std::map<std::size_t, double> estimates;  // of the plans that were to be timed
  const auto time = [&](const PlansByTime::Entry& entry) {
    estimates.try_emplace(entry.plan, entry.seconds);
    return timings.Add(entry.plan);
  };
  std::vector<PlansByTime::Entry> first;
  while (first.size() < kFirstTimed) {
    const std::optional<PlansByTime::Entry> next = next_fastest();
    if (!next) break;
    first.push_back(*next);
  }
  if (!stopped.ok()) return stopped;
  for (const PlansByTime::Entry& entry : first) {
    AUTOCFG_RETURN_IF_ERROR(time(entry));
  }
  for (const PlansByTime::Entry& entry : first) fastest.Push({plans[entry.plan].seconds, entry.plan, true});
  // Always times the fastest plan that is not timed yet.
  for (std::size_t settled = 0; settled < kSettled && !timings.full();) {
    const std::optional<PlansByTime::Entry> next = next_fastest();
    if (!stopped.ok()) return stopped;
    if (!next) break;
    if (timed.contains(next->plan)) {
      ++settled;
      continue;
    }
    AUTOCFG_RETURN_IF_ERROR(time(*next));
    if (timed.contains(next->plan)) {
      fastest.Push({plans[next->plan].seconds, next->plan, true});
    } else {
      ++settled;  // the program is too large; the closed form is kept
    }
  }
  // Ratio of timed to closed-form time of the plans that do the least work.
  std::map<std::size_t, float> factors;
  for (const auto& [i, seconds] : estimates) factors[i] = static_cast<float>(plans[i].seconds / seconds);
  LazyTimes times(std::move(factors));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].less_work != kNoPlan) plans[i].seconds *= times.FactorOf(feasible, i);
  }
  if (lazy != nullptr) *lazy = std::move(times);
  return timed;
}

Prediction PredictionOf(CostModel& costs, const FeasiblePlans& feasible, const TimedPlans& timed,
                        std::size_t i) {
  if (const auto it = timed.find(i); it != timed.end()) return it->second;
  Prediction p = costs.Estimate(feasible.PlanAt(i));
  if (p.step_time_s != feasible.plans[i].seconds) Scale(p, feasible.plans[i].seconds / p.step_time_s);
  return p;
}

}  // namespace autocfg
