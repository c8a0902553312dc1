#include "search/planner/feasible_plans.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "search/plan/placement.h"
#include "search/plan/plan_options.h"
#include "search/planner/plans/resolved_run.h"

namespace autocfg {
namespace {

// Returns whether the plans have one layout: all options that the space sets before it iterates over splits.
bool SameLayout(const ParallelPlan& a, const ParallelPlan& b) {
  return a.mesh() == b.mesh() && a.micro_batch == b.micro_batch && a.schedule == b.schedule &&
         a.virtual_stages == b.virtual_stages;
}

// Returns the bytes of what was found, without room to grow.
std::size_t BytesOf(const FeasiblePlans& found) {
  return found.plans.size() * sizeof(FeasiblePlan) + found.others.size() * sizeof(PlanChoice) +
         found.table.Bytes();
}

// Makes room for one more: a quarter more in a long list, since one that doubles takes up to twice its
// elements.
template <typename T>
void Grow(std::vector<T>& list) {
  constexpr std::size_t kLong = 100'000;
  if (list.size() < list.capacity()) return;
  const std::size_t more = list.size() < kLong ? list.size() : list.size() / 4;
  list.reserve(list.size() + std::max<std::size_t>(64, more));
}

// Adds the plans of a walk to those found.
class Collector {
 public:
  Collector(const SearchSpace& space, CostModel& costs, std::int64_t arena_bytes, FeasiblePlans& into,
            const VisitRejected& rejected)
      : arena_bytes_(arena_bytes), into_(into), rejected_(rejected), run_(space, costs) {}

  // Adds the plan with the alternatives that fit. Called in the space's order.
  void Add(std::span<const SearchSpace::Alternative> alternatives) {
    Begin(alternatives.front());
    ++legal_;
    FeasiblePlan plan{.first_other = static_cast<std::uint32_t>(into_.others.size())};
    bool fits = false, duplicate = false;
    std::int64_t least_bytes = kNoBytes;  // of all alternatives with the most recompute
    std::optional<ParallelPlan> largest;  // the plan that does not fit
    std::optional<std::size_t> hint;
    // Overlapped and scattered messages take no less memory than plain ones, so those with the same split
    // begin where the last alternative with plain messages ended, and their deepest recompute takes no less.
    const ParallelPlan* plain = nullptr;
    bool plain_fits = false;
    std::size_t plain_least = 0;
    EvenLeasts evens;
    const auto keep = [&](std::size_t value, std::int64_t arena_bytes) {
      const PlanChoice choice{into_.table.Pack(run_.At(value)), Kibibytes(arena_bytes)};
      if (!std::exchange(fits, true)) {
        plan.choice = choice;
        return;
      }
      Grow(into_.others);
      into_.others.push_back(choice);
      ++plan.others;
    };
    for (const SearchSpace::Alternative& alternative : alternatives) {
      const ParallelPlan& open = alternative.plan;
      const std::span<const SearchSpace::RecomputeValue> values = alternative.depths;
      const bool after_plain = plain != nullptr && plain->split == open.split;
      if (after_plain && !plain_fits) continue;
      run_.Set(open, values, alternative.parts);
      const std::size_t last = values.size() - 1, from = after_plain ? plain_least : 0;
      const bool is_plain = open.messages() == MessageOptions();
      std::optional<EvenLeast>& even = evens[open.p2p_overlap ? 1 : 0][open.scatter_gather ? 1 : 0];
      // Layers that recompute do not delay their weight gradients. That may be faster: a backward in two
      // parts repeats some ops, and delayed gradients are reduced in actions of their own, with less to hide
      // them.
      const bool more_may_be_faster = SplitsBackward(open) && ShardsGradients(open);
      // Returns whether they are faster than the least depth that fits.
      const auto keep_parts = [&](std::size_t least) {
        bool faster = false;
        for (const bool delays : {true, false}) {
          if (delays && !SplitsBackward(open)) continue;  // one set of values: no layer delays gradients
          // Where nothing needs to be recomputed, parts may be faster only if they end the delays.
          if (least == 0 && (delays || !SplitsBackward(open))) continue;
          const std::optional<ResolvedRun::Sized> fastest = run_.FastestPartsThatFit(arena_bytes_, delays);
          if (!fastest) continue;
          faster = run_.IsFaster(fastest->index, least);
          if (!run_.IsDuplicate(fastest->index)) keep(fastest->index, fastest->bytes);
        }
        return faster;
      };
      if (open.split == SplitMode::kAuto && even && IsEvenAnyway(*even, values, from)) {
        duplicate = true;
        if (even->fits) keep_parts(even->least);
        if (is_plain) {
          plain = &open;
          plain_fits = even->fits;
          plain_least = even->least;
        }
        continue;
      }
      const auto [least, bytes] = run_.LeastThatFits(arena_bytes_, from, hint);
      if (open.split == SplitMode::kEven) {
        if (last > 0) hint = least;
        even = {values, least, bytes <= arena_bytes_};
      }
      if (run_.IsDuplicate(least)) {
        duplicate = true;
        if (bytes <= arena_bytes_) keep_parts(least);
        if (alternatives.size() == 1) PassDuplicate(least, values[least]);
        continue;
      }
      if (is_plain) {
        plain = &open;
        plain_fits = bytes <= arena_bytes_;
        plain_least = least;
      }
      const std::int64_t deepest = after_plain ? bytes : std::min(bytes, run_.Arena(last));
      if (!into_.smallest || deepest < into_.smallest_bytes) {
        into_.smallest = run_.At(deepest < bytes ? last : least);
        into_.smallest_bytes = deepest;
      }
      least_bytes = std::min(least_bytes, deepest);
      if (bytes > arena_bytes_) {
        if (rejected_ && !largest) largest = run_.At(least);
        continue;
      }
      if (!keep_parts(least)) keep(least, bytes);
      if (more_may_be_faster && least < last && !run_.IsDuplicate(last) && run_.Arena(last) <= arena_bytes_)
        keep(last, run_.Arena(last));
    }
    if (fits) {
      plan.least_kib = Kibibytes(least_bytes);
      Keep(alternatives.front(), plan);
    } else if (least_bytes != kNoBytes) {
      ++into_.out_of_memory;
      if (rejected_ && !rejected_(*largest, std::nullopt)) rejected_ = nullptr;
    } else if (duplicate) {
      ++dropped_;
    }
  }

  std::int64_t legal() const { return legal_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  static constexpr std::int64_t kNoBytes = std::numeric_limits<std::int64_t>::max();

  // What was found for an alternative with split=even; by whether messages overlap and are scattered.
  struct EvenLeast {
    std::span<const SearchSpace::RecomputeValue> values;
    std::size_t least = 0;
    bool fits = false;
  };
  using EvenLeasts = std::array<std::array<std::optional<EvenLeast>, 2>, 2>;

  // Returns true only if the run at hand, with split=auto, has the same plan as `even`: its split is even
  // wherever LeastThatFits looks.
  bool IsEvenAnyway(const EvenLeast& even, std::span<const SearchSpace::RecomputeValue> values,
                    std::size_t from) {
    if (values.size() != even.values.size() || from > even.least) return false;
    const auto is_even = [&](std::size_t i) { return values[i] == even.values[i] && run_.IsEven(i); };
    return is_even(even.least) && (from == even.least || (is_even(from) && is_even(even.least - 1)));
  }

  void Begin(const SearchSpace::Alternative& first) {
    const ParallelPlan& plan = first.plan;
    if (!SameLayout(plan, previous_)) group_ = into_.plans.size();
    SearchSpace::RecomputeValue::Of(plan).SetIn(previous_);
    if (previous_ == plan) return;  // they differ in a named value of recompute
    less_ = kNoPlan;
    previous_ = plan;
  }

  // Plans that recompute more than a duplicate also recompute more than its twin.
  void PassDuplicate(std::size_t least, const SearchSpace::RecomputeValue& value) {
    if (value.mode == Recompute::kSelective) return;
    const std::int32_t twin = LastInGroup(into_.table.Pack(run_.At(least)).variant);
    if (twin != kNoPlan) less_ = twin;
  }

  void Keep(const SearchSpace::Alternative& first, FeasiblePlan& plan) {
    const auto index = static_cast<std::int32_t>(into_.plans.size());
    ParallelPlan own = first.plan;
    first.depths.front().SetIn(own);
    // A plan that delays no gradients may be faster than one that recomputes nothing.
    const bool may_be_faster = SplitsBackward(own) && RecomputesInputs(own);
    plan.less_work = less_ == kNoPlan || may_be_faster ? FindLowerZero(first.plan, plan) : less_;
    Grow(into_.plans);
    into_.plans.push_back(plan);
    const auto variant = static_cast<std::size_t>(plan.choice.plan.variant);
    if (last_of_variant_.size() <= variant)
      last_of_variant_.resize(std::max(variant + 1, 2 * variant), kNoPlan);
    last_of_variant_[variant] = index;
    // Later plans may recompute more. Selective recompute is skipped, since full:1 may recompute less.
    if (first.depths.front().mode != Recompute::kSelective) less_ = index;
  }

  // Returns the plan that differs only in a lower zero of at least 1, and in the values that are covered
  // there (PlanOption::covered), which the space may leave out. Its choices recompute as little.
  std::int32_t FindLowerZero(const ParallelPlan& open, const FeasiblePlan& plan) {
    if (open.zero_stage <= 1) return kNoPlan;
    // Without shards, gradients are reduced while the last action computes, which has nothing to compute if
    // none are delayed.
    if (SplitsBackward(open) && OverlapsGradients(open)) {
      const auto recomputes_inputs = [this](const PlanChoice& choice) {
        return RecomputesInputs(into_.table.Unpack(choice.plan));
      };
      if (recomputes_inputs(plan.choice) || std::ranges::any_of(into_.OthersOf(plan), recomputes_inputs))
        return kNoPlan;
    }
    for (std::int64_t zero = open.zero_stage - 1; zero >= 1; --zero) {
      ParallelPlan lower = open;
      lower.zero_stage = zero;
      std::int32_t found = FindInGroup(plan, lower.states());
      if (found == kNoPlan) {
        for (const PlanOption& option : PlanOptions()) {
          if (option.covered != nullptr && option.covered(lower)) option.copy(Covering(), lower);
        }
        found = FindInGroup(plan, lower.states());
      }
      if (found != kNoPlan && HasSameChoices(plan, into_.plans[static_cast<std::size_t>(found)]))
        return found;
    }
    return kNoPlan;
  }

  // Returns whether plans that differ in states alone have the same choices.
  bool HasSameChoices(const FeasiblePlan& a, const FeasiblePlan& b) const {
    const std::span<const PlanChoice> of_a = into_.OthersOf(a), of_b = into_.OthersOf(b);
    return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                      [&](const PlanChoice& x, const PlanChoice& y) {
                        return into_.table.DifferInStatesAlone(x.plan.variant, y.plan.variant);
                      });
  }

  // Returns a plan with the values that cover others.
  static const ParallelPlan& Covering() {
    static const ParallelPlan plan{{}, {}, {}, {}, {.grad_overlap = true, .param_overlap = true}};
    return plan;
  }

  // Returns the index of the plan with other states, of those with the layout at hand; kNoPlan if it does not
  // fit, or with another choice.
  std::int32_t FindInGroup(const FeasiblePlan& plan, const StateOptions& states) const {
    const auto variant = into_.table.WithStates(plan.choice.plan.variant, states);
    return variant ? LastInGroup(*variant) : kNoPlan;
  }
  std::int32_t LastInGroup(std::int32_t variant) const {
    if (static_cast<std::size_t>(variant) >= last_of_variant_.size()) return kNoPlan;
    const std::int32_t last = last_of_variant_[static_cast<std::size_t>(variant)];
    return last != kNoPlan && static_cast<std::size_t>(last) >= group_ ? last : kNoPlan;
  }

  const std::int64_t arena_bytes_;
  FeasiblePlans& into_;
  VisitRejected rejected_;
  ResolvedRun run_;
  ParallelPlan previous_{{.tp = 0}};
  std::size_t group_ = 0;  // index of the first plan with the layout at hand
  std::int32_t less_ = kNoPlan;
  // By variant of the table: the index of the last plan that has it.
  std::vector<std::int32_t> last_of_variant_;
  std::int64_t legal_ = 0, dropped_ = 0;
};

}  // namespace

absl::StatusOr<FeasiblePlans> FindFeasiblePlans(const SearchSpace& space, CostModel& costs,
                                                std::int64_t arena_bytes, const PlanningBudget& budget,
                                                const PlanningWatch& watch, const VisitRejected& rejected) {
  FeasiblePlans found;
  Collector collector(space, costs, arena_bytes, found, rejected);
  PlanningProgress progress;
  bool stopped = false;
  const auto looks_on = [&](std::int64_t enumerated) {
    progress.enumerated = std::max(progress.enumerated, enumerated);
    progress.fit = static_cast<std::int64_t>(found.plans.size());
    stopped = watch && !watch(progress);
    return !stopped;
  };
  const std::int64_t most = budget.PlansOf(costs.model().layers);
  std::int64_t cases = 0;
  const auto is_left = [&] {
    return collector.legal() < most && cases < budget.cases && BytesOf(found) < budget.bytes;
  };
  WatchPace pace;
  const SearchSpace::VisitPlan visit = [&](std::span<const SearchSpace::Alternative> alternatives) {
    const ParallelPlan& plan = alternatives.front().plan;
    if (pace.Due(plan, alternatives.size()) && !looks_on(collector.legal())) return false;
    if (!is_left()) return false;
    collector.Add(alternatives);
    return true;
  };
  const SearchSpace::GoOn go_on = [&](const SearchSpace::Counts& so_far) {
    cases = so_far.cases;
    return looks_on(so_far.enumerated) && is_left();
  };
  const SearchSpace::Counts counts = space.ForEachPlan(visit, go_on, rejected);
  if (stopped) return PlanningStopped(progress);
  found.enumerated = counts.enumerated - collector.dropped();
  found.illegal = counts.illegal;
  found.cut_off_at = counts.ended_at;
  return found;
}

}  // namespace autocfg
