#include "search/planner/lazy_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "search/planner/pareto_front.h"
#include "search/planner/plans/resolved_run.h"

namespace autocfg {

PlansByTime::PlansByTime(std::vector<Entry> entries) : heap_(std::move(entries)) {
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
}

PlansByTime::Entry PlansByTime::Pop() {
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
  const Entry entry = heap_.back();
  heap_.pop_back();
  return entry;
}

void PlansByTime::Push(const Entry& entry) {
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

TwinTimes TimesOfTwins(double whole_s, double scattered_s) {
  if (scattered_s < whole_s) return {true, whole_s / scattered_s};
  return {false, scattered_s / whole_s};
}

double LazyTimes::FactorOf(const FeasiblePlans& feasible, const FeasiblePlan& plan) const {
  auto least = static_cast<std::size_t>(plan.less_work);
  while (feasible.plans[least].less_work != kNoPlan)
    least = static_cast<std::size_t>(feasible.plans[least].less_work);
  const auto factor = factors_.find(least);
  return factor == factors_.end() ? 1 : factor->second;
}

bool LazyTimes::RaiseBound(CostModel& costs, FeasiblePlans& feasible, std::size_t i) const {
  FeasiblePlan& plan = feasible.plans[i];
  if (plan.IsTimed()) return false;
  const std::optional<double> bound_s = costs.ClosedFormAtLeast(feasible.PlanAt(i));
  if (!bound_s) return false;
  const double factor = plan.less_work == kNoPlan ? 1 : FactorOf(feasible, plan);
  plan.step_time_s = -std::max(plan.SecondsAtLeast(), factor * *bound_s);
  return true;
}

double LazyTimes::Time(CostModel& costs, FeasiblePlans& feasible, std::size_t i) const {
  FeasiblePlan& plan = feasible.plans[i];
  if (plan.IsTimed()) return plan.step_time_s;
  const auto estimate = [&](std::size_t of) {
    return costs.EstimatedSeconds(feasible.PlanAt(of), costs.host_op_s());
  };
  if (plan.less_work != kNoPlan) return plan.step_time_s = estimate(i) * FactorOf(feasible, plan);
  std::size_t whole = i, scattered = i;
  if (plan.sends_whole != kNoPlan) {
    const auto other = static_cast<std::size_t>(plan.sends_whole);
    if (feasible.plans[other].less_work == kNoPlan) whole = other;
  } else {
    const std::pair key(static_cast<std::int32_t>(i), std::int32_t{0});
    const auto found = std::lower_bound(twins_.begin(), twins_.end(), key);
    if (found != twins_.end() && found->first == key.first)
      scattered = static_cast<std::size_t>(found->second);
  }
  if (whole == scattered) return plan.step_time_s = estimate(i);
  const double whole_s = estimate(whole), scattered_s = estimate(scattered);
  const auto [scattered_is_faster, ratio] = TimesOfTwins(whole_s, scattered_s);
  feasible.plans[whole].step_time_s = scattered_is_faster ? ratio * scattered_s : whole_s;
  feasible.plans[scattered].step_time_s = scattered_is_faster ? scattered_s : ratio * whole_s;
  return plan.step_time_s;
}

std::vector<TimedPlan> LazyTimes::Fastest(CostModel& costs, FeasiblePlans& feasible,
                                          std::size_t limit) const {
  constexpr double kSame = 1 + 2e-9;
  const std::vector<FeasiblePlan>& plans = feasible.plans;
  limit = std::min(limit, plans.size());
  if (limit == 0) return {};
  // The known times say how long the last of the fastest takes at most.
  std::vector<double> known;
  for (const FeasiblePlan& plan : plans) {
    if (plan.IsTimed()) known.push_back(plan.step_time_s);
  }
  double most_s = std::numeric_limits<double>::infinity();
  if (known.size() >= limit) {
    const auto last = known.begin() + static_cast<std::ptrdiff_t>(limit - 1);
    std::nth_element(known.begin(), last, known.end());
    most_s = *last * kSame;
  }
  std::vector<PlansByTime::Entry> entries;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].SecondsAtLeast() <= most_s)
      entries.push_back({plans[i].SecondsAtLeast(), static_cast<std::uint32_t>(i), plans[i].IsTimed()});
  }
  PlansByTime by_time(std::move(entries));
  std::vector<TimedPlan> fastest;
  while (!by_time.empty() &&
         (fastest.size() < limit || by_time.Top().seconds <= kSame * fastest[limit - 1].seconds)) {
    PlansByTime::Entry next = by_time.Pop();
    if (next.timed) {
      fastest.push_back({next.seconds, next.plan});
      continue;
    }
    next.raised = !next.raised && RaiseBound(costs, feasible, next.plan);
    next.timed = !next.raised;
    next.seconds = next.raised ? plans[next.plan].SecondsAtLeast() : Time(costs, feasible, next.plan);
    by_time.Push(next);
  }
  return fastest;
}

absl::Status LazyTimes::TimeFront(CostModel& costs, FeasiblePlans& feasible, const SearchSpace& space,
                                  const PlanningWatch& watch) const {
  const std::vector<FeasiblePlan>& plans = feasible.plans;
  if (plans.empty()) return absl::OkStatus();
  // First the plan with the least bound of each of a few ranges of memory, which beat most others.
  constexpr std::size_t kRanges = 256;
  const auto [least, most] = std::minmax_element(
      plans.begin(), plans.end(),
      [](const FeasiblePlan& a, const FeasiblePlan& b) { return a.arena_kib < b.arena_kib; });
  const std::uint64_t least_kib = least->arena_kib, span_kib = most->arena_kib - least_kib + 1;
  std::array<std::optional<std::size_t>, kRanges> fastest;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::optional<std::size_t>& of_range = fastest[(plans[i].arena_kib - least_kib) * kRanges / span_kib];
    if (!of_range || plans[i].SecondsAtLeast() < plans[*of_range].SecondsAtLeast()) of_range = i;
  }
  std::vector<std::size_t> first;
  for (const std::optional<std::size_t>& i : fastest) {
    if (i) first.push_back(*i);
  }
  std::sort(first.begin(), first.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(plans[a].SecondsAtLeast(), a) < std::pair(plans[b].SecondsAtLeast(), b);
  });
  ParetoFront front;
  const auto offer = [&](std::size_t i) { front.Offer({plans[i].step_time_s, plans[i].arena_kib, i}); };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].IsTimed()) offer(i);
  }
  // The time of a plan that is not timed is longer than its bound.
  const auto is_beaten = [&](std::size_t i) {
    return front.Beats(plans[i].SecondsAtLeast(), plans[i].arena_kib);
  };
  const PlanningProgress progress{.enumerated = feasible.enumerated,
                                  .fit = static_cast<std::int64_t>(plans.size())};
  // Returns false once the watch says no.
  const auto consider = [&](std::size_t i) {
    if (plans[i].IsTimed() || is_beaten(i)) return true;
    if (watch && !watch(progress)) return false;
    if (RaiseBound(costs, feasible, i) && is_beaten(i)) return true;
    Time(costs, feasible, i);
    offer(i);
    return true;
  };
  bool goes_on = true;
  for (std::size_t n = 0; n < first.size() && goes_on; ++n) goes_on = consider(first[n]);
  for (std::size_t i = 0; i < plans.size() && goes_on; ++i) goes_on = consider(i);
  // Then those that recompute more. They take no less time than the plan with the least recomputation, and
  // no less memory than the deepest, which rules most of them out at once.
  DeeperPlans deeper(costs, space);
  for (std::size_t i = 0; i < plans.size() && goes_on; ++i) {
    const FeasiblePlan& plan = plans[i];
    if (plan.least_kib == plan.arena_kib || front.Beats(plan.SecondsAtLeast(), plan.least_kib)) continue;
    if (RaiseBound(costs, feasible, i) && front.Beats(plan.SecondsAtLeast(), plan.least_kib)) continue;
    if (watch && !watch(progress)) goes_on = false;
    const ParallelPlan least = feasible.PlanAt(i);
    const double factor = Time(costs, feasible, i) / costs.EstimatedSeconds(least, costs.host_op_s());
    deeper.Set(least);
    const auto visit = [&](const auto& self, std::size_t begin, std::size_t end) -> void {
      if (begin == end || front.Beats(factor * deeper.SecondsAtLeast(begin), deeper.Kib(end - 1))) return;
      if (end - begin > 1) {
        const std::size_t middle = begin + (end - begin) / 2;
        self(self, middle, end);
        return self(self, begin, middle);
      }
      const ParallelPlan other = deeper.At(begin);
      const double seconds = factor * costs.EstimatedSeconds(other, costs.host_op_s());
      if (!std::isfinite(seconds) || front.Beats(seconds, deeper.Kib(begin))) return;
      front.Offer({seconds, deeper.Kib(begin), plans.size() + feasible.deeper.size()});
      feasible.deeper.push_back({.plan = feasible.table.Pack(other),
                                 .less_work = static_cast<std::int32_t>(i),
                                 .arena_kib = deeper.Kib(begin),
                                 .least_kib = plan.least_kib,
                                 .step_time_s = seconds});
    };
    visit(visit, 0, deeper.size());
  }
  return goes_on ? absl::OkStatus() : PlanningStopped(progress);
}

}  // namespace autocfg
