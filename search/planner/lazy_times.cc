#include "search/planner/lazy_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
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

double TakeFastestChoice(CostModel& costs, FeasiblePlans& feasible, std::size_t i) {
  FeasiblePlan& plan = feasible.plans[i];
  const std::span<PlanChoice> others = feasible.OthersOf(plan);
  const auto estimate = [&](const ParallelPlan& of) { return costs.EstimatedSeconds(of, costs.host_op_s()); };
  if (others.empty()) return estimate(feasible.PlanAt(i));
  struct Candidate {
    ParallelPlan plan;
    double at_least_s = 0;
    PlanChoice* other = nullptr;  // null: the plan's choice
  };
  std::vector<Candidate> candidates;
  candidates.reserve(others.size() + 1);
  const auto add = [&](const PlanChoice& choice, PlanChoice* other) {
    candidates.push_back({feasible.table.Unpack(choice.plan), 0, other});
    Candidate& added = candidates.back();
    added.at_least_s = costs.ClosedFormAtLeast(added.plan).value_or(0);
    if (added.at_least_s == 0) added.at_least_s = costs.SecondsAtLeast(added.plan);
  };
  add(plan.choice, nullptr);
  for (PlanChoice& other : others) add(other, &other);
  // A choice with an op that has no time is not slower: nobody knows.
  for (const Candidate& candidate : candidates) {
    if (!std::isfinite(candidate.at_least_s)) return candidate.at_least_s;
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.at_least_s < b.at_least_s; });
  double least_s = std::numeric_limits<double>::infinity();
  PlanChoice* fastest = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.at_least_s >= least_s) break;
    const double seconds = estimate(candidate.plan);
    if (!std::isfinite(seconds)) return seconds;
    if (seconds >= least_s) continue;
    least_s = seconds;
    fastest = candidate.other;
  }
  if (fastest != nullptr) std::swap(plan.choice, *fastest);
  return least_s;
}

double SecondsAtLeast(CostModel& costs, const FeasiblePlans& feasible, std::size_t i) {
  const FeasiblePlan& plan = feasible.plans[i];
  double least_s = costs.SecondsAtLeast(feasible.table.Unpack(plan.choice.plan));
  for (const PlanChoice& other : feasible.OthersOf(plan))
    least_s = std::min(least_s, costs.SecondsAtLeast(feasible.table.Unpack(other.plan)));
  return least_s;
}

double LazyTimes::FactorOf(const FeasiblePlans& feasible, std::size_t i) const {
  if (factors_.empty()) return 1;
  while (feasible.plans[i].less_work != kNoPlan) i = static_cast<std::size_t>(feasible.plans[i].less_work);
  const auto factor = factors_.find(i);
  return factor == factors_.end() ? 1 : factor->second;
}

double LazyTimes::ChoiceFactor(CostModel& costs, const FeasiblePlans& feasible, std::size_t i) const {
  const FeasiblePlan& plan = feasible.plans[i];
  if (!plan.timed || !factors_.empty()) return FactorOf(feasible, i);
  return plan.seconds / costs.EstimatedSeconds(feasible.PlanAt(i), costs.host_op_s());
}

void SetFirstBound(CostModel& costs, FeasiblePlans& feasible, std::size_t i) {
  FeasiblePlan& plan = feasible.plans[i];
  if (plan.less_work == kNoPlan) {
    plan.seconds = SecondsAtLeast(costs, feasible, i);
    return;
  }
  plan.bound = TimeBound::kOfLessWork;
  plan.seconds = feasible.plans[static_cast<std::size_t>(plan.less_work)].seconds;
}

bool LazyTimes::RaiseBound(CostModel& costs, FeasiblePlans& feasible, std::size_t i) const {
  FeasiblePlan& plan = feasible.plans[i];
  if (plan.timed || plan.bound == TimeBound::kClosedForm) return false;
  if (plan.bound == TimeBound::kOfLessWork) {
    plan.bound = TimeBound::kOfPlan;
    plan.seconds = std::max(plan.seconds, FactorOf(feasible, i) * SecondsAtLeast(costs, feasible, i));
    return true;
  }
  plan.bound = TimeBound::kClosedForm;
  double least_s = std::numeric_limits<double>::infinity();
  const auto consider = [&](const PlanChoice& choice) {
    const std::optional<double> bound_s = costs.ClosedFormAtLeast(feasible.table.Unpack(choice.plan));
    if (bound_s) least_s = std::min(least_s, *bound_s);
    return bound_s.has_value();
  };
  if (!consider(plan.choice)) return false;
  for (const PlanChoice& other : feasible.OthersOf(plan)) {
    if (!consider(other)) return false;
  }
  plan.seconds = std::max(plan.seconds, FactorOf(feasible, i) * least_s);
  return true;
}

double LazyTimes::Time(CostModel& costs, FeasiblePlans& feasible, std::size_t i) const {
  FeasiblePlan& plan = feasible.plans[i];
  if (plan.timed) return plan.seconds;
  plan.timed = true;
  return plan.seconds = TakeFastestChoice(costs, feasible, i) * FactorOf(feasible, i);
}

std::vector<TimedPlan> LazyTimes::Fastest(CostModel& costs, FeasiblePlans& feasible, std::size_t limit,
                                          const std::function<bool(const FeasiblePlan&)>& counts,
                                          double most_s) const {
  constexpr double kSame = 1 + 2e-9;
  const std::vector<FeasiblePlan>& plans = feasible.plans;
  if (limit == 0) return {};
  std::vector<PlansByTime::Entry> entries;
  std::vector<double> known;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].seconds >= most_s || (counts && !counts(plans[i]))) continue;
    entries.push_back({plans[i].seconds, static_cast<std::uint32_t>(i), plans[i].timed});
    if (plans[i].timed) known.push_back(plans[i].seconds);
  }
  // The known times say how long the last of the fastest takes at most.
  if (known.size() >= limit) {
    const auto last = known.begin() + static_cast<std::ptrdiff_t>(limit - 1);
    std::nth_element(known.begin(), last, known.end());
    std::erase_if(entries, [&](const PlansByTime::Entry& entry) { return entry.seconds > *last * kSame; });
  }
  PlansByTime by_time(std::move(entries));
  std::vector<TimedPlan> fastest;
  while (!by_time.empty() && by_time.Top().seconds < most_s &&
         (fastest.size() < limit || by_time.Top().seconds <= kSame * fastest[limit - 1].seconds)) {
    PlansByTime::Entry next = by_time.Pop();
    if (next.timed) {
      fastest.push_back({next.seconds, next.plan});
      continue;
    }
    next.timed = !RaiseBound(costs, feasible, next.plan);
    next.seconds = next.timed ? Time(costs, feasible, next.plan) : plans[next.plan].seconds;
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
  const auto kib = [&](std::size_t i) { return plans[i].choice.arena_kib; };
  std::uint32_t least_kib = kib(0), most_kib = kib(0);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    least_kib = std::min(least_kib, kib(i));
    most_kib = std::max(most_kib, kib(i));
  }
  const std::uint64_t span_kib = std::uint64_t{most_kib} - least_kib + 1;
  std::array<std::optional<std::size_t>, kRanges> fastest;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::optional<std::size_t>& of_range = fastest[(kib(i) - least_kib) * kRanges / span_kib];
    if (!of_range || plans[i].seconds < plans[*of_range].seconds) of_range = i;
  }
  std::vector<std::size_t> first;
  for (const std::optional<std::size_t>& i : fastest) {
    if (i) first.push_back(*i);
  }
  std::sort(first.begin(), first.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(plans[a].seconds, a) < std::pair(plans[b].seconds, b);
  });
  ParetoFront front;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].timed) front.Offer({plans[i].seconds, kib(i), i});
  }
  const PlanningProgress progress{.enumerated = feasible.enumerated,
                                  .fit = static_cast<std::int64_t>(plans.size())};
  const auto looked = [&] { return !watch || watch(progress); };
  // The time of a plan that is not timed is longer than its bound, that of a slower choice too. More
  // recomputation takes no less time, and no less memory than the deepest.
  const auto is_beaten = [&](std::size_t i) { return front.Beats(plans[i].seconds, plans[i].least_kib); };
  DeeperPlans deeper(costs, space);
  const auto offer_slower = [&](std::size_t of, const ParallelPlan& plan, std::uint32_t arena_kib,
                                double factor) {
    const std::optional<double> seconds =
        EstimateUnless(costs, plan, factor, [&](double bound_s) { return front.Beats(bound_s, arena_kib); });
    if (!seconds || !std::isfinite(*seconds) || front.Beats(*seconds, arena_kib)) return;
    front.Offer({*seconds, arena_kib, plans.size() + feasible.slower.size()});
    feasible.slower.push_back({.choice = {feasible.table.Pack(plan), arena_kib},
                               .timed = true,
                               .less_work = static_cast<std::int32_t>(of),
                               .least_kib = plans[of].least_kib,
                               .seconds = *seconds});
  };
  // Offers what recomputes more than the choice.
  const auto offer_deeper = [&](std::size_t of, const PlanChoice& choice, double factor) {
    deeper.Set(feasible.table.Unpack(choice.plan));
    const auto visit = [&](const auto& self, std::size_t begin, std::size_t end) -> void {
      if (begin == end || front.Beats(factor * deeper.SecondsAtLeast(begin), deeper.Kib(end - 1))) return;
      if (end - begin > 1) {
        const std::size_t middle = begin + (end - begin) / 2;
        self(self, middle, end);
        return self(self, begin, middle);
      }
      const ParallelPlan plan = deeper.At(begin);
      offer_slower(of, plan, deeper.Kib(begin), factor);
    };
    visit(visit, 0, deeper.size());
  };
  // Each returns false once the watch says no.
  const auto time = [&](std::size_t i) {
    std::uint32_t least_choice_kib = kib(i);
    for (const PlanChoice& other : feasible.OthersOf(plans[i]))
      least_choice_kib = std::min(least_choice_kib, other.arena_kib);
    const auto beaten = [&] { return front.Beats(plans[i].seconds, least_choice_kib); };
    if (plans[i].timed || beaten()) return true;
    if (!looked()) return false;
    while (RaiseBound(costs, feasible, i)) {
      if (beaten()) return true;
    }
    Time(costs, feasible, i);
    front.Offer({plans[i].seconds, kib(i), i});
    return true;
  };
  const auto consider = [&](std::size_t i) {
    if (is_beaten(i)) return true;
    if (!time(i) || !looked()) return false;
    const double factor = ChoiceFactor(costs, feasible, i);
    for (const PlanChoice& other : feasible.OthersOf(plans[i]))
      offer_slower(i, feasible.table.Unpack(other.plan), other.arena_kib, factor);
    offer_deeper(i, plans[i].choice, factor);
    for (const PlanChoice& other : feasible.OthersOf(plans[i])) offer_deeper(i, other, factor);
    return true;
  };
  bool goes_on = true;
  for (std::size_t n = 0; n < first.size() && goes_on; ++n) goes_on = time(first[n]);
  // Then all, those that may be fastest first.
  std::vector<std::uint32_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return plans[a].seconds < plans[b].seconds; });
  for (std::size_t n = 0; n < order.size() && goes_on; ++n) goes_on = consider(order[n]);
  return goes_on ? absl::OkStatus() : PlanningStopped(progress);
}

}  // namespace autocfg
