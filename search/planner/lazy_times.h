// Times of plans that are computed once an answer needs them. Until then a plan has a lower bound of its time
// (CostModel::SecondsAtLeast), and counts as evaluated: its legality, its memory and the bound are known. An
// answer takes the plans in the order of their bounds, and computes the times of those that can still change
// it. So it is the one that the times of all plans would give: the fastest plans to any number, those that no
// other beats in time and memory, the fastest plan with another value of an option.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "search/cost/cost_model.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/planning.h"
#include "search/planner/strategy/by_time.h"

namespace autocfg {

// What the time of a plan depends on beside its estimate. Empty if all plans are timed. Each call takes the
// same plans, and the cost model of their bounds. Not thread-safe.
class LazyTimes {
 public:
  LazyTimes() = default;
  // `factors`: of plans without less_work, what their times and those of plans linked to them are multiplied
  // by; 1 if a plan is not among them.
  explicit LazyTimes(std::map<std::size_t, float> factors) : factors_(std::move(factors)) {}

  // Computes the time of a plan and its fastest choice unless they are known, and returns the time.
  double Time(CostModel& costs, FeasiblePlans& feasible, std::size_t i) const;

  // Goes to the next closer bound of a plan (TimeBound). Returns false if there is none: it is timed, or the
  // closed form is its time.
  bool RaiseBound(CostModel& costs, FeasiblePlans& feasible, std::size_t i) const;

  // Returns the `limit` fastest of the plans that `counts` holds for, fastest first, then by index; and those
  // that are slower than the last of them by two billionths or less. Only plans that take less than `most_s`.
  std::vector<TimedPlan> Fastest(CostModel& costs, FeasiblePlans& feasible, std::size_t limit,
                                 const std::function<bool(const FeasiblePlan&)>& counts = {},
                                 double most_s = std::numeric_limits<double>::infinity()) const;

  // Times all plans that no other beats in both time and memory, also their slower choices, and those that
  // recompute more than they must: it adds these to feasible.slower. Cancelled once `watch` says no.
  absl::Status TimeFront(CostModel& costs, FeasiblePlans& feasible, const SearchSpace& space,
                         const PlanningWatch& watch = {}) const;

  // Returns what estimates of a plan that does more work than others are multiplied by.
  double FactorOf(const FeasiblePlans& feasible, std::size_t i) const;

  // Returns what estimates of the plan's choices are multiplied by: if it is timed, the ratio of its time to
  // its estimate.
  double ChoiceFactor(CostModel& costs, const FeasiblePlans& feasible, std::size_t i) const;

 private:
  std::map<std::size_t, float> factors_;
};

// Estimates the plan's choices, in the order of their bounds, and makes the fastest one the plan's choice.
// Returns its time; infinity or NaN if some estimate is.
double TakeFastestChoice(CostModel& costs, FeasiblePlans& feasible, std::size_t i);

// Returns a lower bound of the times of the plan's choices (CostModel::SecondsAtLeast).
double SecondsAtLeast(CostModel& costs, const FeasiblePlans& feasible, std::size_t i);

// Sets the first bound of the plan: that of the plan that does less work, if there is one, which must be set.
void SetFirstBound(CostModel& costs, FeasiblePlans& feasible, std::size_t i);

// Returns `factor` times the estimate of a plan; nothing once a bound says that it is longer than the caller
// wants, which asks the cheapest bound first.
template <typename IsTooLong>
std::optional<double> EstimateUnless(CostModel& costs, const ParallelPlan& plan, double factor,
                                     const IsTooLong& is_too_long) {
  if (is_too_long(factor * costs.SecondsAtLeast(plan))) return std::nullopt;
  const std::optional<double> bound_s = costs.ClosedFormAtLeast(plan);
  if (bound_s && is_too_long(factor * *bound_s)) return std::nullopt;
  return factor * costs.EstimatedSeconds(plan, costs.host_op_s());
}

// A heap of plans by their times, or by the bounds of those that are not timed, then by index.
class PlansByTime {
 public:
  struct Entry {
    double seconds = 0;
    std::uint32_t plan = 0;
    bool timed = false;
    bool operator>(const Entry& other) const {
      return std::pair(seconds, plan) > std::pair(other.seconds, other.plan);
    }
  };

  explicit PlansByTime(std::vector<Entry> entries);
  bool empty() const { return heap_.empty(); }
  const Entry& Top() const { return heap_.front(); }
  Entry Pop();
  void Push(const Entry& entry);

 private:
  std::vector<Entry> heap_;
};

}  // namespace autocfg
