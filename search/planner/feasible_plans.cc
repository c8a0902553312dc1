#include "search/planner/feasible_plans.h"

#include <algorithm>
#include <atomic>
#include <chrono>
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

// Returns the bytes of a list of plans, without room to grow.
std::size_t ListBytes(std::size_t plans) { return plans * sizeof(FeasiblePlan); }

// Makes room for a plan: a quarter more in a long list, since one that doubles takes up to twice its plans.
void Grow(std::vector<FeasiblePlan>& plans) {
  constexpr std::size_t kLong = 100'000;
  if (plans.size() < plans.capacity()) return;
  const std::size_t more = plans.size() < kLong ? plans.size() : plans.size() / 4;
  plans.reserve(plans.size() + std::max<std::size_t>(64, more));
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

  // Adds the plan with the first of the values that fits. Called in the space's order. Returns whether the
  // budget had room for it.
  bool Add(const ParallelPlan& plan, std::span<const SearchSpace::RecomputeValue> values) {
    const bool look = pace_.PlansLeft(plan) == 0;
    if (look) pace_.Looked();
    if (!before_(look)) return false;
    pace_.Passed(plan, 1);
    Begin(plan);
    run_.Set(plan, values);
    ++legal_;
    const std::size_t last = values.size() - 1, least = LeastThatFits(last);
    if (run_.IsDuplicate(least)) {
      ++dropped_;
      // Plans that recompute more than this one also recompute more than its twin.
      if (values[least].mode != Recompute::kSelective) {
        if (const std::int32_t twin = FindInGroup(run_.At(least)); twin != kNoPlan) less_ = twin;
      }
    } else {
      Keep(least, last, values[least].mode);
    }
    return true;
  }

  std::int64_t legal() const { return legal_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  void Begin(const ParallelPlan& plan) {
    if (!SameLayout(plan, previous_)) group_ = into_.plans.size();
    previous_.recompute = plan.recompute;
    previous_.recompute_layers = plan.recompute_layers;
    if (previous_ == plan) return;  // they differ in a named value of recompute
    less_ = kNoPlan;
    previous_ = plan;
  }

  bool Fits(std::size_t i) { return run_.Arena(i) <= arena_bytes_; }

  // Returns the first value that fits; the last one if none does.
  std::size_t LeastThatFits(std::size_t last) {
    std::size_t i = 0;
    if (run_.HasOneSplit() && last > 1) {
      // From the first full:K on, each layer changes the memory by as much.
      if (Fits(0)) return 0;
      if (Fits(1)) return 1;
      if (!Fits(last)) return last;
      i = 1;
      for (std::size_t fits = last; fits - i > 1;) {
        const std::size_t middle = i + (fits - i) / 2;
        (Fits(middle) ? fits : i) = middle;
      }
      return i + 1;
    }
    while (i < last && !Fits(i)) ++i;
    return i;
  }

  void Keep(std::size_t i, std::size_t last, Recompute mode) {
    const std::int64_t bytes = run_.Arena(i), least_bytes = std::min(bytes, run_.Arena(last));
    if (!into_.smallest || least_bytes < into_.smallest_bytes) {
      into_.smallest = run_.At(least_bytes < bytes ? last : i);
      into_.smallest_bytes = least_bytes;
    }
    if (bytes > arena_bytes_) {
      ++into_.out_of_memory;
      if (rejected_ && !rejected_(run_.At(i), std::nullopt)) rejected_ = nullptr;
      return;
    }
    const ParallelPlan& resolved = run_.At(i);
    const std::int32_t less_work = less_ == kNoPlan ? FindLowerZero(resolved) : less_;
    const CompactPlan packed = into_.table.Pack(resolved);
    const auto index = static_cast<std::int32_t>(into_.plans.size());
    Grow(into_.plans);
    into_.plans.push_back({.plan = packed,
                           .less_work = less_work,
                           .sends_whole = resolved.scatter_gather ? FindWhole(resolved) : kNoPlan,
                           .arena_kib = Kibibytes(bytes),
                           .least_kib = Kibibytes(least_bytes)});
    const auto variant = static_cast<std::size_t>(packed.variant);
    if (last_of_variant_.size() <= variant)
      last_of_variant_.resize(std::max(variant + 1, 2 * variant), kNoPlan);
    last_of_variant_[variant] = index;
    // Later plans may recompute more. Selective recompute is skipped, since full:1 may recompute less.
    if (mode != Recompute::kSelective) less_ = index;
  }

  // Returns the plan that differs in scatter_gather alone. Layers are balanced by the stage times without
  // messages between stages and their arrival, so that both have one split.
  std::int32_t FindWhole(ParallelPlan plan) const {
    plan.scatter_gather = false;
    return FindInGroup(plan);
  }

  // Returns the plan that differs only in a lower zero of at least 1, and in the values that are covered
  // there (PlanOption::covered), which the space may leave out.
  std::int32_t FindLowerZero(const ParallelPlan& plan) {
    for (std::int64_t zero = plan.zero_stage - 1; zero >= 1; --zero) {
      ParallelPlan lower = plan;
      lower.zero_stage = zero;
      const std::int32_t same = FindInGroup(lower);
      if (same != kNoPlan) return same;
      for (const PlanOption& option : PlanOptions()) {
        if (option.covered != nullptr && option.covered(lower)) option.copy(Covering(), lower);
      }
      const std::int32_t covering = FindInGroup(lower);
      if (covering != kNoPlan) return covering;
    }
    return kNoPlan;
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
    const auto is_left = [&] {
      return IsLeft({legal(), walking->cases(), ListBytes(found_.plans.size()) + found_.table.Bytes()});
    };
    Collector collector(
        space_, costs_, arena_bytes_, found_,
        [&](bool look) {
          return (!look || Look(std::max(enumerated, legal()), found_.plans.size())) && is_left();
        },
        rejected_);
    collecting = &collector;
    const SearchSpace::VisitPlan visit = [&](const ParallelPlan& plan, const auto& values) {
      return collector.Add(plan, values);
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
    const auto is_left = [&] {
      return IsLeft(
          {collecting->legal(), walking->cases(), ListBytes(found.plans.size()) + found.table.Bytes()});
    };
    const auto look_on = [&] {
      show();
      return goes_on();
    };
    Collector collector(space_, costs, arena_bytes_, found,
                        [&](bool look) { return (!look || look_on()) && is_left(); }, {});
    collecting = &collector;
    const SearchSpace::VisitPlan visit = [&](const ParallelPlan& plan, const auto& values) {
      return collector.Add(plan, values);
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
    std::size_t bytes = ListBytes(found_.plans.size() + more.plans.size()) + found_.table.Bytes();
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
    const auto before = static_cast<std::int32_t>(found_.plans.size());
    for (FeasiblePlan plan : more.plans) {
      plan.plan.variant = variants[static_cast<std::size_t>(plan.plan.variant)];
      if (plan.less_work != kNoPlan) plan.less_work += before;
      if (plan.sends_whole != kNoPlan) plan.sends_whole += before;
      Grow(found_.plans);
      found_.plans.push_back(plan);
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
