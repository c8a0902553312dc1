#include "search/planner/lazy_times.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>

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
  const std::span<const PlanChoice> others = feasible.OthersOf(plan);
  const PlanTable& table = feasible.table;
  // Messages that overlap do not make the bound larger.
  const auto has_overlapped = [&](std::int32_t variant) {
    const MessageOptions& messages = table.Messages(variant);
    return !messages.p2p_overlap && std::any_of(others.begin(), others.end(), [&](const PlanChoice& other) {
      const MessageOptions& of_other = table.Messages(other.plan.variant);
      return of_other.p2p_overlap && of_other.scatter_gather == messages.scatter_gather &&
             table.DifferInMessagesAlone(variant, other.plan.variant);
    });
  };
  double least_s = std::numeric_limits<double>::infinity();
  const auto consider = [&](const PlanChoice& choice) {
    if (!has_overlapped(choice.plan.variant))
      least_s = std::min(least_s, costs.SecondsAtLeast(table.Unpack(choice.plan)));
  };
  consider(plan.choice);
  for (const PlanChoice& other : others) consider(other);
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
  const auto is_asked_for = [&](const FeasiblePlan& plan) {
    return plan.seconds < most_s && (!counts || counts(plan));
  };
  // The known times say how long the last of the fastest takes at most.
  std::vector<double> known;
  for (const FeasiblePlan& plan : plans) {
    if (plan.timed && is_asked_for(plan)) known.push_back(plan.seconds);
  }
  double last_s = std::numeric_limits<double>::infinity();
  if (known.size() >= limit) {
    const auto last = known.begin() + static_cast<std::ptrdiff_t>(limit - 1);
    std::nth_element(known.begin(), last, known.end());
    last_s = *last * kSame;
  }
  std::vector<PlansByTime::Entry> entries;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].seconds <= last_s && is_asked_for(plans[i]))
      entries.push_back({plans[i].seconds, static_cast<std::uint32_t>(i), plans[i].timed});
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

namespace {

// Finds the front by a sweep in the order of time: what may be fastest comes first, so whatever takes as much
// memory as the last point of the front is beaten. A candidate begins with a bound that costs nothing. Each
// time that it comes first it gets a closer one, and goes back, until its time is known. So only those are
// timed that are on the front, or nearly.
class FrontSweep {
 public:
  FrontSweep(const LazyTimes& times, CostModel& costs, FeasiblePlans& feasible, const SearchSpace& space)
      : times_(times), costs_(costs), feasible_(feasible), deeper_(costs, space) {}

  // Returns false once `goes_on` does, which is asked before the times of a few plans are computed.
  bool Run(const std::function<bool()>& goes_on) {
    // A plan has its first bound until the sweep reaches it. Copies of these: there are many plans.
    struct Unreached {
      double seconds = 0;
      std::uint32_t plan = 0, least_kib = 0;
      bool operator<(const Unreached& other) const {
        return std::pair(seconds, plan) < std::pair(other.seconds, other.plan);
      }
    };
    std::vector<Unreached> plans;
    plans.reserve(feasible_.plans.size());
    for (const FeasiblePlan& plan : feasible_.plans)
      plans.push_back({plan.seconds, static_cast<std::uint32_t>(plans.size()), plan.least_kib});
    std::sort(plans.begin(), plans.end());
    std::size_t next = 0;
    for (std::size_t looked = 0; next < plans.size() || !queue_.empty();) {
      Candidate first;
      if (next < plans.size()) {
        first = {
            .seconds = plans[next].seconds, .least_kib = plans[next].least_kib, .plan = plans[next].plan};
      }
      if (next < plans.size() && (queue_.empty() || queue_.top() > first)) {
        ++next;
      } else {
        first = queue_.top();
        queue_.pop();
      }
      if (front_.Beats(first.seconds, first.least_kib)) continue;
      constexpr std::size_t kCandidatesPerLook = 16;
      if (looked++ % kCandidatesPerLook == 0 && !goes_on()) return false;
      Advance(first);
    }
    return true;
  }

 private:
  enum class Kind : std::uint8_t {
    kPlan,    // a plan with all its choices, and what recomputes more than these
    kChoice,  // one of them
    kDeeper,  // plans that recompute more than a choice: DeeperPlans [begin, end), or all
    kOne,     // one of those: ones_[begin]
  };
  enum class Known : std::uint8_t { kNothing, kBound, kClosedForm, kTime };
  struct Candidate {
    double seconds = 0;           // a lower bound, or the time
    double factor = 1;            // of estimates
    std::uint32_t least_kib = 0;  // that one of its plans takes
    std::uint32_t plan = 0;
    std::uint32_t choice = 0;  // 0: the plan's choice, then the others
    std::uint32_t begin = 0, end = 0;
    Kind kind = Kind::kPlan;
    Known known = Known::kNothing;
    bool operator>(const Candidate& other) const {
      return std::tuple(seconds, plan, choice, begin) >
             std::tuple(other.seconds, other.plan, other.choice, other.begin);
    }
  };

  Candidate WholePlan(std::uint32_t i) const {
    const FeasiblePlan& plan = feasible_.plans[i];
    return {.seconds = plan.seconds, .least_kib = plan.least_kib, .plan = i};
  }

  const PlanChoice& ChoiceOf(const Candidate& c) const {
    const FeasiblePlan& plan = feasible_.plans[c.plan];
    return c.choice == 0 ? plan.choice : feasible_.others[plan.first_other + c.choice - 1];
  }

  // Goes a step on with a candidate that nothing beats yet.
  void Advance(const Candidate& c) {
    switch (c.kind) {
      case Kind::kPlan: return AdvancePlan(c);
      case Kind::kChoice: return AdvanceOne(c, feasible_.table.Unpack(ChoiceOf(c).plan));
      case Kind::kDeeper: return AdvanceDeeper(c);
      case Kind::kOne: return AdvanceOne(c, ones_[c.begin]);
    }
  }

  void AdvancePlan(const Candidate& c) {
    const FeasiblePlan& plan = feasible_.plans[c.plan];
    if (!plan.timed) {
      std::uint32_t least_choice_kib = plan.choice.arena_kib;
      for (const PlanChoice& other : feasible_.OthersOf(plan))
        least_choice_kib = std::min(least_choice_kib, other.arena_kib);
      // A bound of the plan itself takes less time than bounds of all that recompute more.
      if (plan.bound == TimeBound::kOfLessWork || !front_.Beats(plan.seconds, least_choice_kib)) {
        if (!times_.RaiseBound(costs_, feasible_, c.plan)) times_.Time(costs_, feasible_, c.plan);
        queue_.push(WholePlan(c.plan));
        return;
      }
    }
    if (plan.timed) front_.Offer({plan.seconds, plan.choice.arena_kib, c.plan});
    Candidate part = c;
    part.factor = times_.ChoiceFactor(costs_, feasible_, c.plan);
    for (part.choice = 0; part.choice <= plan.others; ++part.choice) {
      part.kind = Kind::kDeeper;
      part.least_kib = plan.least_kib;
      queue_.push(part);
      if (!plan.timed || part.choice == 0) continue;
      part.kind = Kind::kChoice;
      part.least_kib = ChoiceOf(part).arena_kib;
      queue_.push(part);
    }
  }

  void AdvanceDeeper(const Candidate& c) {
    const PlanChoice& choice = ChoiceOf(c);
    deeper_.Set(feasible_.table.Unpack(choice.plan), choice.arena_kib);
    const auto depths = static_cast<std::uint32_t>(deeper_.depths());
    const auto push = [&](std::uint32_t begin, std::uint32_t end) {
      Candidate part = c;
      part.known = Known::kBound;
      part.seconds = std::max(c.seconds, c.factor * deeper_.SecondsAtLeast(begin));
      part.least_kib = deeper_.Kib(end - 1);
      if (front_.Beats(part.seconds, part.least_kib)) return;
      part.begin = begin;
      part.end = end;
      if (end - begin == 1) {
        part.kind = Kind::kOne;
        part.begin = static_cast<std::uint32_t>(ones_.size());
        ones_.push_back(deeper_.At(begin));
      }
      queue_.push(part);
    };
    if (c.known == Known::kNothing) {
      if (depths > 0) push(0, depths);
      for (auto part = depths; part < deeper_.size(); ++part) push(part, part + 1);
      return;
    }
    const std::uint32_t middle = c.begin + (c.end - c.begin) / 2;
    push(c.begin, middle);
    push(middle, c.end);
  }

  // `plan`: the only one of the candidate.
  void AdvanceOne(Candidate c, const ParallelPlan& plan) {
    const auto raise = [&](Known known, double seconds) {
      c.known = known;
      c.seconds = std::max(c.seconds, c.factor * seconds);
    };
    switch (c.known) {
      case Known::kNothing: raise(Known::kBound, costs_.SecondsAtLeast(plan)); break;
      case Known::kBound:
        if (const std::optional<double> bound_s = costs_.ClosedFormAtLeast(plan)) {
          raise(Known::kClosedForm, *bound_s);
          break;
        }
        [[fallthrough]];
      case Known::kClosedForm:
        c.known = Known::kTime;
        c.seconds = c.factor * costs_.EstimatedSeconds(plan, costs_.host_op_s());
        if (!std::isfinite(c.seconds)) return;
        break;
      case Known::kTime:
        front_.Offer({c.seconds, c.least_kib, feasible_.plans.size() + feasible_.slower.size()});
        feasible_.slower.push_back({.choice = {feasible_.table.Pack(plan), c.least_kib},
                                    .timed = true,
                                    .less_work = static_cast<std::int32_t>(c.plan),
                                    .least_kib = feasible_.plans[c.plan].least_kib,
                                    .seconds = c.seconds});
        return;
    }
    queue_.push(c);
  }

  const LazyTimes& times_;
  CostModel& costs_;
  FeasiblePlans& feasible_;
  DeeperPlans deeper_;
  std::deque<ParallelPlan> ones_;
  ParetoFront front_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue_;
};

}  // namespace

absl::Status LazyTimes::TimeFront(CostModel& costs, FeasiblePlans& feasible, const SearchSpace& space,
                                  const PlanningWatch& watch) const {
  const PlanningProgress progress{.enumerated = feasible.enumerated,
                                  .fit = static_cast<std::int64_t>(feasible.plans.size())};
  const bool ended = FrontSweep(*this, costs, feasible, space).Run([&] { return !watch || watch(progress); });
  return ended ? absl::OkStatus() : PlanningStopped(progress);
}

}  // namespace autocfg
