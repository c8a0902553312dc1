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

std::uint32_t Kibibytes(std::int64_t bytes) {
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>((bytes + 1023) / 1024, std::numeric_limits<std::uint32_t>::max()));
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

// Returns how many legal plans may follow; 0 ends before the next one. Asked by Collector before the first
// plan, after each plan that it keeps, and once as many came. `look`: asks the watch first.
using BeforePlans = std::function<std::int64_t(bool look)>;

// Adds the plans of a walk to those found.
class Collector {
 public:
  Collector(const SearchSpace& space, CostModel& costs, std::int64_t arena_bytes, FeasiblePlans& into,
            BeforePlans before, const VisitRejected& rejected)
      : arena_bytes_(arena_bytes),
        into_(into),
        before_(std::move(before)),
        rejected_(rejected),
        run_(space, costs) {}

  // Adds the plans of a run; called in the space's order. Returns how many it went through.
  std::int64_t Add(const ParallelPlan& run, std::span<const SearchSpace::RecomputeValue> values) {
    Begin(run);
    run_.Set(run, values);
    const bool sends_whole = !run.scatter_gather && scatter_gather_.redundant(run).empty();
    std::int64_t allowed = 0, passed = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (allowed == 0) {
        pace_.Passed(run, std::exchange(passed, 0));
        const bool look = pace_.PlansLeft(run) == 0;
        if (look) pace_.Looked();
        allowed = std::min(before_(look), pace_.PlansLeft(run));
        if (allowed == 0) return static_cast<std::int64_t>(i);
      }
      --allowed;
      ++passed;
      ++legal_;
      std::int32_t index = kNoPlan;
      if (run_.IsDuplicate(i)) {
        ++dropped_;
        // Plans that recompute more than this one also recompute more than its twin.
        if (values[i].mode != Recompute::kSelective) twins_.push_back(i);
      } else {
        index = Keep(i, sends_whole ? kNoPlan : FindWhole(values[i]));
        if (index != kNoPlan) allowed = 0;  // their memory may be used up
      }
      if (sends_whole) whole_.push_back({values[i], index});
    }
    pace_.Passed(run, passed);
    if (rejected_) FindTwin();  // the run may go on
    twins_.clear();
    return static_cast<std::int64_t>(values.size());
  }

  std::int64_t legal() const { return legal_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  // A plan that sends whole messages. Layers are balanced by the stage times without messages between stages
  // and their arrival. The plan with scatter_gather therefore has the same split.
  struct Whole {
    SearchSpace::RecomputeValue value;
    std::int32_t index;  // kNoPlan: does not fit, or is a duplicate
  };

  // A run may come in parts, with illegal plans between.
  void Begin(const ParallelPlan& run) {
    if (!SameLayout(run, previous_)) group_ = into_.plans.size();
    previous_.recompute = run.recompute;
    previous_.recompute_layers = run.recompute_layers;
    if (previous_ == run) return;
    family_ = nullptr;
    less_ = kNoPlan;
    next_whole_ = 0;
    previous_.scatter_gather = run.scatter_gather;
    if (previous_ != run) whole_.clear();
    previous_ = run;
  }

  // Returns the plan that differs only in scatter_gather, if it fits. Both are enumerated in the same order.
  std::int32_t FindWhole(const SearchSpace::RecomputeValue& value) {
    for (std::size_t i = next_whole_; i < whole_.size(); ++i) {
      if (whole_[i].value != value) continue;
      next_whole_ = i;
      return whole_[i].index;
    }
    return kNoPlan;
  }

  // Returns the plan's index, or kNoPlan.
  std::int32_t Keep(std::size_t i, std::int32_t sends_whole) {
    const std::int64_t bytes = run_.Arena(i);
    if (!into_.smallest || bytes < into_.smallest_bytes) {
      into_.smallest = run_.At(i);
      into_.smallest_bytes = bytes;
    }
    if (bytes > arena_bytes_) {
      ++into_.out_of_memory;
      if (rejected_ && !rejected_(run_.At(i), std::nullopt)) rejected_ = nullptr;
      return kNoPlan;
    }
    FindTwin();
    const ParallelPlan& resolved = run_.At(i);
    const std::int32_t less_work = less_ == kNoPlan ? FindLowerZero(resolved) : less_;
    // Uneven splits depend on what is recomputed.
    const bool even = resolved.split == SplitMode::kEven;
    if (even && family_ == nullptr) family_ = into_.table.FamilyOf(resolved);
    const CompactPlan packed = even ? into_.table.Pack(resolved, *family_) : into_.table.Pack(resolved);
    const auto index = static_cast<std::int32_t>(into_.plans.size());
    Grow(into_.plans);
    into_.plans.push_back(
        {.plan = packed, .less_work = less_work, .sends_whole = sends_whole, .arena_kib = Kibibytes(bytes)});
    const auto variant = static_cast<std::size_t>(packed.variant);
    if (last_of_variant_.size() <= variant)
      last_of_variant_.resize(std::max(variant + 1, 2 * variant), kNoPlan);
    last_of_variant_[variant] = index;
    // Later plans may recompute more. Selective recompute is skipped, since full:1 may recompute less.
    if (resolved.recompute != Recompute::kSelective) less_ = index;
    return index;
  }

  // Sets less_ to the twin of the latest duplicate since it was set, if one of them fits.
  void FindTwin() {
    for (; !twins_.empty(); twins_.pop_back()) {
      const std::int32_t twin = FindInGroup(run_.At(twins_.back()));
      if (twin == kNoPlan) continue;
      less_ = twin;
      twins_.clear();
      return;
    }
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

  const PlanOption& scatter_gather_ = *FindPlanOption("scatter_gather");
  const std::int64_t arena_bytes_;
  FeasiblePlans& into_;
  const BeforePlans before_;
  WatchPace pace_;
  VisitRejected rejected_;
  ResolvedRun run_;
  ParallelPlan previous_{{.tp = 0}};
  PlanTable::Family* family_ = nullptr;  // of the run's plans with an even split, once one is kept
  std::size_t group_ = 0;                // index of the first plan with the layout at hand
  std::int32_t less_ = kNoPlan;
  std::vector<std::size_t> twins_;  // duplicates of the run since less_ was set
  std::vector<Whole> whole_;  // that are the same as the current plan in all but recompute and scatter_gather
  std::size_t next_whole_ = 0;
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
          if (look && !Look(std::max(enumerated, legal()), found_.plans.size())) return std::int64_t{0};
          return is_left() ? most_ - legal() : 0;
        },
        rejected_);
    collecting = &collector;
    const SearchSpace::VisitRun visit = [&](const ParallelPlan& plan, const auto& values) {
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
                        [&](bool look) {
                          if (look && !look_on()) return std::int64_t{0};
                          return is_left() ? most_ - collecting->legal() : 0;
                        },
                        {});
    collecting = &collector;
    const SearchSpace::VisitRun visit = [&](const ParallelPlan& plan, const auto& values) {
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
