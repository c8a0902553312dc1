#include "search/planner/feasible_plans.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <span>
#include <utility>
#include <vector>

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

// Returns whether a legal plan may follow. `look`: asks the watch first.
using BeforePlan = std::function<bool(bool look)>;

// Adds the plans of a walk to those found.
class Collector {
 public:
  Collector(const SearchSpace& space, CostModel& costs, std::int64_t arena_bytes, FeasiblePlans& into,
            BeforePlan before, const VisitRejected& rejected)
      : arena_bytes_(arena_bytes),
        into_(into),
        before_(std::move(before)),
        rejected_(rejected),
        run_(space, costs) {}

  // Adds the plan with the alternatives that fit. Called in the space's order. Returns whether the budget had
  // room for it.
  bool Add(std::span<const SearchSpace::Alternative> alternatives) {
    const ParallelPlan& first = alternatives.front().plan;
    const bool look = pace_.PlansLeft(first) == 0;
    if (look) pace_.Looked();
    if (!before_(look)) return false;
    pace_.Passed(first, static_cast<std::int64_t>(alternatives.size()));
    Begin(alternatives.front());
    ++legal_;
    FeasiblePlan plan{.first_other = static_cast<std::uint32_t>(into_.others.size())};
    bool fits = false, duplicate = false;
    std::int64_t least_bytes = kNoBytes;  // of all alternatives with the most recompute
    std::optional<ParallelPlan> largest;  // the plan that does not fit
    std::optional<std::size_t> hint;
    // Overlapped and scattered messages take no less memory than plain ones, so those with the same split
    // begin where the last alternative with plain messages ended.
    const ParallelPlan* plain = nullptr;
    bool plain_fits = false;
    std::size_t plain_least = 0;
    for (const auto& [open, values] : alternatives) {
      const bool after_plain = plain != nullptr && plain->split == open.split;
      if (after_plain && !plain_fits) continue;
      run_.Set(open, values);
      const std::size_t last = values.size() - 1,
                        least = run_.LeastThatFits(arena_bytes_, after_plain ? plain_least : 0, hint);
      if (open.split == SplitMode::kEven && last > 0) hint = least;
      if (run_.IsDuplicate(least)) {
        duplicate = true;
        if (alternatives.size() == 1) PassDuplicate(least, values[least]);
        continue;
      }
      const std::int64_t bytes = run_.Arena(least);
      if (open.messages() == MessageOptions()) {
        plain = &open;
        plain_fits = bytes <= arena_bytes_;
        plain_least = least;
      }
      const std::int64_t deepest = std::min(bytes, run_.Arena(last));
      if (!into_.smallest || deepest < into_.smallest_bytes) {
        into_.smallest = run_.At(deepest < bytes ? last : least);
        into_.smallest_bytes = deepest;
      }
      least_bytes = std::min(least_bytes, deepest);
      if (bytes > arena_bytes_) {
        if (rejected_ && !largest) largest = run_.At(least);
        continue;
      }
      const PlanChoice choice{into_.table.Pack(run_.At(least)), Kibibytes(bytes)};
      if (!fits) {
        plan.choice = choice;
        fits = true;
        continue;
      }
      Grow(into_.others);
      into_.others.push_back(choice);
      ++plan.others;
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
    return true;
  }

  std::int64_t legal() const { return legal_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  static constexpr std::int64_t kNoBytes = std::numeric_limits<std::int64_t>::max();

  void Begin(const SearchSpace::Alternative& first) {
    const ParallelPlan& plan = first.plan;
    if (!SameLayout(plan, previous_)) group_ = into_.plans.size();
    previous_.recompute = plan.recompute;
    previous_.recompute_layers = plan.recompute_layers;
    if (previous_ == plan) return;  // they differ in a named value of recompute
    less_ = kNoPlan;
    previous_ = plan;
  }

  // Plans that recompute more than a duplicate also recompute more than its twin.
  void PassDuplicate(std::size_t least, const SearchSpace::RecomputeValue& value) {
    if (value.mode == Recompute::kSelective) return;
    if (const std::int32_t twin = FindInGroup(run_.At(least)); twin != kNoPlan) less_ = twin;
  }

  void Keep(const SearchSpace::Alternative& first, FeasiblePlan& plan) {
    const auto index = static_cast<std::int32_t>(into_.plans.size());
    plan.less_work = less_ == kNoPlan ? FindLowerZero(plan) : less_;
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
  std::int32_t FindLowerZero(const FeasiblePlan& plan) {
    const ParallelPlan resolved = into_.table.Unpack(plan.choice.plan);
    for (std::int64_t zero = resolved.zero_stage - 1; zero >= 1; --zero) {
      ParallelPlan lower = resolved;
      lower.zero_stage = zero;
      std::int32_t found = FindInGroup(lower);
      if (found == kNoPlan) {
        for (const PlanOption& option : PlanOptions()) {
          if (option.covered != nullptr && option.covered(lower)) option.copy(Covering(), lower);
        }
        found = FindInGroup(lower);
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
                        ParallelPlan plan = into_.table.Unpack(y.plan);
                        static_cast<StateOptions&>(plan) = into_.table.Unpack(x.plan).states();
                        return plan == into_.table.Unpack(x.plan);
                      });
  }

  // Returns a plan with the values that cover others.
  static const ParallelPlan& Covering() {
    static const ParallelPlan plan{{}, {}, {}, {}, {.grad_overlap = true, .param_overlap = true}};
    return plan;
  }

  // Returns the index of the plan, of those with the layout at hand; kNoPlan if it does not fit.
  std::int32_t FindInGroup(const ParallelPlan& plan) const {
    const std::optional<CompactPlan> packed = into_.table.Find(plan);
    if (!packed || static_cast<std::size_t>(packed->variant) >= last_of_variant_.size()) return kNoPlan;
    const std::int32_t last = last_of_variant_[static_cast<std::size_t>(packed->variant)];
    return last != kNoPlan && static_cast<std::size_t>(last) >= group_ ? last : kNoPlan;
  }

  const std::int64_t arena_bytes_;
  FeasiblePlans& into_;
  const BeforePlan before_;
  WatchPace pace_;
  VisitRejected rejected_;
  ResolvedRun run_;
  ParallelPlan previous_{{.tp = 0}};
  std::size_t group_ = 0;  // index of the first plan with the layout at hand
  std::int32_t less_ = kNoPlan;
  // By variant of the table: the index of the last plan that has it.
  std::vector<std::int32_t> last_of_variant_;
  std::int64_t legal_ = 0, dropped_ = 0;
};

// A limit of a budget that what was gone through has not reached. `cases`: in steps of kCasesPerLook.
struct Spent {
  std::int64_t legal = 0, cases = 0;
  std::size_t bytes = 0;
};

class Finder {
 public:
  Finder(const SearchSpace& space, CostModel& costs, std::int64_t arena_bytes, const PlanningBudget& budget,
         const PlanningWatch& watch, const VisitRejected& rejected)
      : space_(space),
        costs_(costs),
        arena_bytes_(arena_bytes),
        budget_(budget),
        most_(budget.PlansOf(costs.model().layers)),
        watch_(watch),
        rejected_(rejected) {}

  absl::StatusOr<FeasiblePlans> Find(const base::TaskThreads& threads) {
    const SearchSpace::PartList parts = space_.Parts();
    if (threads.count <= 1 || parts.size() <= 1 || rejected_) {
      GoThrough(parts, 0);
    } else {
      std::size_t merged = 0, asked = 0;
      while (merged == asked && merged < parts.size()) {
        asked = std::min(merged + kPartsAtOnce, parts.size());
        merged += GoThroughTogether(parts, merged, asked, threads);
      }
      // The budget ends in the next part.
      if (!stopped_ && merged < parts.size()) GoThrough(parts, merged);
    }
    if (stopped_) return PlanningStopped(progress_);
    found_.enumerated -= dropped_;
    return std::move(found_);
  }

 private:
  // The largest spaces have hundreds of thousands of parts. What is found in so many is held at once: less
  // than a kilobyte each.
  static constexpr std::size_t kPartsAtOnce = 512;

  // What one thread found in one part of the space.
  struct PartResult {
    FeasiblePlans found;
    std::int64_t legal = 0, dropped = 0, cases = 0;
    bool complete = false;
  };

  static std::int64_t WholeLooks(std::int64_t cases) {
    return cases / SearchSpace::kCasesPerLook * SearchSpace::kCasesPerLook;
  }

  bool IsLeft(const Spent& spent) const {
    return spent.legal < most_ && WholeLooks(spent.cases) < budget_.cases && spent.bytes < budget_.bytes;
  }

  bool Look(std::int64_t enumerated, std::size_t fit) {
    if (stopped_) return false;
    progress_ = {.enumerated = std::max(progress_.enumerated, enumerated),
                 .fit = static_cast<std::int64_t>(fit)};
    if (watch_ && !watch_(progress_)) stopped_ = true;
    return !stopped_;
  }

  static void Add(const SearchSpace::Counts& counts, FeasiblePlans& into) {
    into.enumerated += counts.enumerated;
    for (std::size_t i = 0; i < counts.illegal.size(); ++i) into.illegal[i] += counts.illegal[i];
  }

  // Goes through the parts from `begin` on one by one, after those that were merged.
  void GoThrough(const SearchSpace::PartList& parts, std::size_t begin) {
    std::int64_t enumerated = found_.enumerated;
    const SearchSpace::Walk* walking = nullptr;
    const Collector* collecting = nullptr;
    const auto legal = [&] { return legal_ + collecting->legal(); };
    const auto is_left = [&] { return IsLeft({legal(), walking->cases(), BytesOf(found_)}); };
    Collector collector(
        space_, costs_, arena_bytes_, found_,
        [&](bool look) {
          return (!look || Look(std::max(enumerated, legal()), found_.plans.size())) && is_left();
        },
        rejected_);
    collecting = &collector;
    const SearchSpace::VisitPlan visit = [&](const auto& alternatives) {
      return collector.Add(alternatives);
    };
    const SearchSpace::GoOn go_on = [&](const SearchSpace::Counts& so_far) {
      enumerated = found_.enumerated + so_far.enumerated;
      return Look(enumerated, found_.plans.size()) && is_left();
    };
    SearchSpace::Walk walk(space_, visit, go_on, rejected_, cases_);
    walking = &walk;
    if (begin == 0) walk.PassUnusable();
    for (std::size_t i = begin; i < parts.size(); ++i) {
      if (walk.Pass(parts[i])) continue;
      found_.cut_off_at = parts[i].mesh;
      break;
    }
    Add(walk.counts(), found_);
    legal_ += collector.legal();
    dropped_ += collector.dropped();
  }

  // Goes through the parts from `begin` to `end` on several threads and merges what they find, in order.
  // Returns how many were merged: all, unless the budget ends in the next one or the watch said no.
  std::size_t GoThroughTogether(const SearchSpace::PartList& parts, std::size_t begin, std::size_t end,
                                const base::TaskThreads& threads) {
    const auto count = static_cast<std::size_t>(threads.count);
    while (thread_costs_.size() + 1 < count) thread_costs_.push_back(costs_);
    std::vector<std::optional<PartResult>> results(end - begin);
    std::atomic<std::int64_t> enumerated = found_.enumerated;
    std::atomic<std::int64_t> fit = static_cast<std::int64_t>(found_.plans.size());
    std::size_t merged = 0;
    std::int64_t unlooked = 0;  // cases of the calling thread's parts, which may be too few for a look each
    if (!Look(enumerated, found_.plans.size())) return 0;
    // At most every few milliseconds: each part has its own pace.
    constexpr std::chrono::milliseconds kBetweenLooks(10);
    auto looked = std::chrono::steady_clock::now();
    const auto look = [&] {
      const auto now = std::chrono::steady_clock::now();
      if (now - looked < kBetweenLooks) return !stopped_;
      looked = now;
      return Look(enumerated, static_cast<std::size_t>(fit.load()));
    };
    base::OrderedTasks tasks;
    tasks.count = end - begin;
    tasks.run = [&](std::size_t thread, std::size_t task, const std::atomic<bool>& stop) {
      const auto goes_on = [&] { return !stop && (thread != 0 || look()); };
      results[task] = FindIn(parts[begin + task], begin + task == 0,
                             thread == 0 ? costs_ : thread_costs_[thread - 1], goes_on, enumerated, fit);
      if (thread != 0) return true;
      unlooked += results[task]->cases;
      if (unlooked < SearchSpace::kCasesPerLook) return !stopped_;
      unlooked = 0;
      return look();
    };
    tasks.done = [&](std::size_t task) {
      if (stopped_ || !results[task]->complete || !Merge(*results[task])) return false;
      results[task].reset();
      ++merged;
      return true;
    };
    tasks.goes_on = look;
    base::RunInOrder(tasks, threads);
    return merged;
  }

  // Called by several threads at once.
  PartResult FindIn(const SearchSpace::Part& part, bool begins, CostModel& costs,
                    const std::function<bool()>& goes_on, std::atomic<std::int64_t>& enumerated,
                    std::atomic<std::int64_t>& fit) const {
    PartResult result;
    FeasiblePlans& found = result.found;
    std::int64_t shown_enumerated = 0, shown_fit = 0;
    const SearchSpace::Walk* walking = nullptr;
    const Collector* collecting = nullptr;
    const auto show = [&] {
      const std::int64_t now = std::max(walking->counts().enumerated, collecting->legal());
      const auto fit_now = static_cast<std::int64_t>(found.plans.size());
      enumerated += now - shown_enumerated;
      fit += fit_now - shown_fit;
      shown_enumerated = now;
      shown_fit = fit_now;
    };
    const auto is_left = [&] { return IsLeft({collecting->legal(), walking->cases(), BytesOf(found)}); };
    const auto look_on = [&] {
      show();
      return goes_on();
    };
    Collector collector(space_, costs, arena_bytes_, found,
                        [&](bool look) { return (!look || look_on()) && is_left(); }, {});
    collecting = &collector;
    const SearchSpace::VisitPlan visit = [&](const auto& alternatives) {
      return collector.Add(alternatives);
    };
    const SearchSpace::GoOn go_on = [&](const SearchSpace::Counts&) { return look_on() && is_left(); };
    SearchSpace::Walk walk(space_, visit, go_on);
    walking = &walk;
    if (begins) walk.PassUnusable();
    result.complete = walk.Pass(part);
    show();
    Add(walk.counts(), found);
    result.legal = collector.legal();
    result.dropped = collector.dropped();
    result.cases = walk.cases();
    return result;
  }

  // Appends the plans of a part. Returns false, without effect, if the budget ends within it.
  bool Merge(const PartResult& part) {
    const FeasiblePlans& more = part.found;
    std::size_t bytes = BytesOf(found_) + BytesOf(more) - more.table.Bytes();
    std::vector<std::int32_t> variants(more.table.variants(),
                                       kNoPlan);  // of this table, by those of the part
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const ParallelPlan& variant = more.table.Variant(static_cast<std::int32_t>(i));
      if (const std::optional<CompactPlan> known = found_.table.Find(variant)) {
        variants[i] = known->variant;
      } else {
        bytes += PlanTable::BytesOf(variant);
      }
    }
    if (!IsLeft({legal_ + part.legal, cases_ + part.cases, bytes})) return false;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      if (variants[i] == kNoPlan)
        variants[i] = found_.table.Pack(more.table.Variant(static_cast<std::int32_t>(i))).variant;
    }
    const auto translated = [&](PlanChoice choice) {
      choice.plan.variant = variants[static_cast<std::size_t>(choice.plan.variant)];
      return choice;
    };
    const auto before = static_cast<std::int32_t>(found_.plans.size());
    const auto others_before = static_cast<std::uint32_t>(found_.others.size());
    for (FeasiblePlan plan : more.plans) {
      plan.choice = translated(plan.choice);
      plan.first_other += others_before;
      if (plan.less_work != kNoPlan) plan.less_work += before;
      Grow(found_.plans);
      found_.plans.push_back(plan);
    }
    for (const PlanChoice& choice : more.others) {
      Grow(found_.others);
      found_.others.push_back(translated(choice));
    }
    if (more.smallest && (!found_.smallest || more.smallest_bytes < found_.smallest_bytes)) {
      found_.smallest = more.smallest;
      found_.smallest_bytes = more.smallest_bytes;
    }
    found_.enumerated += more.enumerated;
    found_.out_of_memory += more.out_of_memory;
    for (std::size_t i = 0; i < more.illegal.size(); ++i) found_.illegal[i] += more.illegal[i];
    legal_ += part.legal;
    cases_ += part.cases;
    dropped_ += part.dropped;
    return true;
  }

  const SearchSpace& space_;
  CostModel& costs_;
  std::vector<CostModel> thread_costs_;  // of the threads that are started
  const std::int64_t arena_bytes_;
  const PlanningBudget& budget_;
  const std::int64_t most_;
  const PlanningWatch& watch_;
  const VisitRejected& rejected_;
  FeasiblePlans found_;
  PlanningProgress progress_;
  bool stopped_ = false;
  std::int64_t legal_ = 0, cases_ = 0, dropped_ = 0;  // of the parts that `found_` has
};

}  // namespace

absl::StatusOr<FeasiblePlans> FindFeasiblePlans(const SearchSpace& space, CostModel& costs,
                                                std::int64_t arena_bytes, const PlanningBudget& budget,
                                                const PlanningWatch& watch, const VisitRejected& rejected,
                                                const base::TaskThreads& threads) {
  return Finder(space, costs, arena_bytes, budget, watch, rejected).Find(threads);
}

}  // namespace autocfg
