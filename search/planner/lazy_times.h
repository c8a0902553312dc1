// Times of plans that are computed once an answer needs them. Until then a plan has a lower bound of its time
// (CostModel::SecondsAtLeast), and counts as evaluated: its legality, its memory and the bound are known. An
// answer takes the plans in the order of their bounds, and computes the times of those that can still change
// it. So it is the one that the times of all plans would give: the fastest plans to any number, those that no
// other beats in time and memory, the fastest plan with another value of an option.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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
  using Twins = std::vector<std::pair<std::int32_t, std::int32_t>>;

  LazyTimes() = default;
  // `factors`: of plans without less_work, what their times and those of plans linked to them are multiplied
  // by; 1 if a plan is not among them. `twins`: plans without less_work of which the second sends parts and
  // is else the same as the first, by the first.
  LazyTimes(std::map<std::size_t, float> factors, Twins twins)
      : factors_(std::move(factors)), twins_(std::move(twins)) {}

  // Computes the time of a plan unless it is known, and returns it.
  double Time(CostModel& costs, FeasiblePlans& feasible, std::size_t i) const;

  // Raises the bound of a plan whose time the timer computes. Returns whether it did.
  bool RaiseBound(CostModel& costs, FeasiblePlans& feasible, std::size_t i) const;

  // Returns the `limit` fastest plans, fastest first, then by index; and those that are slower than the last
  // of them by two billionths or less.
  std::vector<TimedPlan> Fastest(CostModel& costs, FeasiblePlans& feasible, std::size_t limit) const;

  // Times all plans that no other beats in both time and memory, also of those that recompute more than they
  // must, which it adds to feasible.deeper. Cancelled once `watch` says no.
  absl::Status TimeFront(CostModel& costs, FeasiblePlans& feasible, const SearchSpace& space,
                         const PlanningWatch& watch = {}) const;

 private:
  // Returns what the estimate of a plan with less_work is multiplied by.
  double FactorOf(const FeasiblePlans& feasible, const FeasiblePlan& plan) const;

  std::map<std::size_t, float> factors_;
  Twins twins_;
};

// A heap of plans by their times, or by the bounds of those that are not timed, then by index.
class PlansByTime {
 public:
  struct Entry {
    double seconds = 0;
    std::uint32_t plan = 0;
    bool timed = false;
    bool raised = false;  // the bound
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

// Returns the times of two plans that differ in scatter_gather alone, from their estimates: the slower one is
// scaled with the faster one.
struct TwinTimes {
  bool scattered_is_faster = false;
  double ratio = 1;  // of the slower one to the faster one
};
TwinTimes TimesOfTwins(double whole_s, double scattered_s);

}  // namespace autocfg
