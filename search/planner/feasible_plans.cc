#include "search/planner/feasible_plans.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/cost/memory/memory_model.h"
#include "search/cost/split.h"
#include "search/plan/plan_options.h"

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

class Collector {
 public:
  Collector(const SearchSpace& space, CostModel& costs, std::int64_t arena_bytes, FeasiblePlans& into,
            const VisitRejected& rejected)
      : space_(space), costs_(costs), arena_bytes_(arena_bytes), into_(into), rejected_(rejected) {}

  // Adds a legal plan; called in the space's order.
  void Add(const ParallelPlan& plan) {
    if (!SameLayout(plan, previous_)) group_ = into_.plans.size();
    // Takes over the options that the space changes fastest, one by one; then all others are compared, so
    // that none can be left out.
    previous_.recompute = plan.recompute;
    previous_.recompute_layers = plan.recompute_layers;
    if (previous_ != plan) {
      less_ = kNoPlan;
      next_whole_ = 0;
      previous_.scatter_gather = plan.scatter_gather;
      if (previous_ != plan) whole_.clear();
      previous_ = plan;
    }
    const Whole* whole = plan.scatter_gather ? FindWhole(plan) : nullptr;
    if (whole != nullptr) {
      ParallelPlan resolved = whole->resolved;
      resolved.scatter_gather = true;
      AddResolved(plan, resolved, whole->index);
      return;
    }
    ParallelPlan resolved = Resolve(plan);
    const std::int32_t index = AddResolved(plan, resolved, kNoPlan);
    if (!plan.scatter_gather)
      whole_.push_back({plan.recompute, plan.recompute_layers, std::move(resolved), index});
  }

  std::int64_t dropped() const { return dropped_; }

 private:
  // A plan that sends whole messages, and its index. Layers are balanced by the stage times without
  // messages between stages and their arrival. The plan with scatter_gather therefore has the same split.
  struct Whole {
    Recompute recompute;
    std::int64_t recompute_layers;
    ParallelPlan resolved;
    std::int32_t index;  // kNoPlan: does not fit, or was dropped
  };

  // Returns ResolveSplit of the plan. Stages are balanced by their times without messages between them and
  // without what a rank does once in a step, so that plans which differ in these alone have one split.
  ParallelPlan Resolve(const ParallelPlan& plan) {
    if (plan.split != SplitMode::kAuto) return ResolveSplit(costs_, plan);
    if (const StageOptions layout{.virtual_stages = plan.virtual_stages, .schedule = plan.schedule};
        plan.mesh() != balanced_mesh_ || layout != balanced_layout_) {
      balanced_.clear();
      balanced_mesh_ = plan.mesh();
      balanced_layout_ = layout;
    }
    const auto [it, made] = balanced_.try_emplace({plan.layer(), plan.recompute_layers});
    if (made) it->second = ResolveSplit(costs_, plan).stage();
    ParallelPlan resolved = plan;
    static_cast<StageOptions&>(resolved) = it->second;
    return resolved;
  }

  // Returns the plan that differs only in scatter_gather. Both are enumerated in the same order.
  const Whole* FindWhole(const ParallelPlan& plan) {
    for (; next_whole_ < whole_.size(); ++next_whole_) {
      const Whole& whole = whole_[next_whole_];
      if (whole.recompute == plan.recompute && whole.recompute_layers == plan.recompute_layers) return &whole;
    }
    return nullptr;
  }

  // Returns the plan's index, or kNoPlan.
  std::int32_t AddResolved(const ParallelPlan& plan, const ParallelPlan& resolved, std::int32_t sends_whole) {
    if (plan.split != SplitMode::kAuto || !space_.HoldsSplit(resolved))
      return Keep(plan, resolved, sends_whole);
    // Plans that recompute more than this one also recompute more than its twin.
    if (const std::int32_t twin = FindInGroup(into_.table.Pack(resolved)); twin != kNoPlan)
      Passed(plan, twin);
    ++dropped_;
    return kNoPlan;
  }

  std::int32_t Keep(const ParallelPlan& plan, const ParallelPlan& resolved, std::int32_t sends_whole) {
    const std::int64_t bytes = costs_.ArenaOf(resolved).Arena();
    if (!into_.smallest || bytes < into_.smallest_bytes) {
      into_.smallest = resolved;
      into_.smallest_bytes = bytes;
    }
    if (bytes > arena_bytes_) {
      ++into_.out_of_memory;
      if (rejected_ && !rejected_(resolved, std::nullopt)) rejected_ = nullptr;
      return kNoPlan;
    }
    const std::int32_t less_work = less_ == kNoPlan ? FindLowerZero(resolved) : less_;
    into_.plans.push_back({.plan = into_.table.Pack(resolved),
                           .less_work = less_work,
                           .sends_whole = sends_whole,
                           .arena_kib = Kibibytes(bytes)});
    const auto index = static_cast<std::int32_t>(into_.plans.size()) - 1;
    Passed(plan, index);
    return index;
  }

  // Records that `plan`, which fits, has index `i`; later plans may recompute more. Selective recompute is
  // skipped, since full:1 may recompute less.
  void Passed(const ParallelPlan& plan, std::int32_t i) {
    if (plan.recompute != Recompute::kSelective) less_ = i;
  }

  // Returns the plan that differs only in a lower zero of at least 1, and in the values that are covered
  // there (PlanOption::covered), which the space may leave out.
  std::int32_t FindLowerZero(const ParallelPlan& plan) {
    for (std::int64_t zero = plan.zero_stage - 1; zero >= 1; --zero) {
      ParallelPlan lower = plan;
      lower.zero_stage = zero;
      const std::int32_t same = FindInGroup(into_.table.Pack(lower));
      if (same != kNoPlan) return same;
      for (const PlanOption& option : PlanOptions()) {
        if (option.covered != nullptr && option.covered(lower)) option.copy(Covering(), lower);
      }
      const std::int32_t covering = FindInGroup(into_.table.Pack(lower));
      if (covering != kNoPlan) return covering;
    }
    return kNoPlan;
  }

  // Returns a plan with the values that cover others.
  static const ParallelPlan& Covering() {
    static const ParallelPlan plan{{}, {}, {}, {}, {.grad_overlap = true, .param_overlap = true}};
    return plan;
  }

  std::int32_t FindInGroup(const CompactPlan& plan) const {
    for (std::size_t i = group_; i < into_.plans.size(); ++i) {
      if (into_.plans[i].plan == plan) return static_cast<std::int32_t>(i);
    }
    return kNoPlan;  // the plan does not fit
  }

  const SearchSpace& space_;
  CostModel& costs_;
  const std::int64_t arena_bytes_;
  FeasiblePlans& into_;
  VisitRejected rejected_;
  ParallelPlan previous_{{.tp = 0}};
  std::size_t group_ = 0;
  std::int32_t less_ = kNoPlan;
  std::vector<Whole> whole_;  // that are the same as the current plan in all but recompute and scatter_gather
  std::size_t next_whole_ = 0;
  // Splits that have been balanced, of plans with this mesh and schedule.
  struct BalancedKey {
    LayerOptions layer;
    std::int64_t recompute_layers = 0;
    bool operator==(const BalancedKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const BalancedKey& key) {  // equality compares all of them
      return H::combine(std::move(h), key.layer.micro_batch, key.layer.recompute, key.recompute_layers,
                        key.layer.sequence_parallel, key.layer.tp_overlap);
    }
  };
  absl::flat_hash_map<BalancedKey, StageOptions> balanced_;
  MeshOptions balanced_mesh_{.tp = 0};
  StageOptions balanced_layout_;
  std::int64_t dropped_ = 0;
};

}  // namespace

absl::StatusOr<FeasiblePlans> FindFeasiblePlans(const SearchSpace& space, CostModel& costs,
                                                std::int64_t arena_bytes, const PlanningBudget& budget,
                                                const PlanningWatch& watch, const VisitRejected& rejected) {
  FeasiblePlans feasible;
  Collector collector(space, costs, arena_bytes, feasible, rejected);
  std::int64_t legal = 0, looks = 0;
  PlanningProgress progress;
  WatchPace pace;
  bool stopped = false;
  MeshOptions last;
  const auto look = [&](std::int64_t enumerated) {
    progress = {.enumerated = enumerated, .fit = static_cast<std::int64_t>(feasible.plans.size())};
    stopped = watch && !watch(progress);
    return !stopped;
  };
  const std::int64_t most = budget.PlansOf(costs.model().layers);
  const auto within_budget = [&] {
    return legal < most && looks * SearchSpace::kCasesPerLook < budget.cases &&
           feasible.Bytes() < budget.bytes;
  };
  const SearchSpace::Counts counts = space.ForEachLegal(
      [&](const ParallelPlan& plan) {
        last = plan.mesh();
        if (pace.Due(plan) && !look(std::max(progress.enumerated, legal))) return false;
        if (!within_budget()) return false;
        ++legal;
        collector.Add(plan);
        return true;
      },
      [&](const SearchSpace::Counts& so_far) {
        ++looks;
        return look(so_far.enumerated) && within_budget();
      },
      rejected);
  if (stopped) return PlanningStopped(progress);
  if (!counts.complete) feasible.cut_off_at = last;
  feasible.enumerated = counts.enumerated - collector.dropped();
  feasible.illegal = counts.illegal;
  return feasible;
}

}  // namespace autocfg
