#include "search/planner/feasible_plans.h"

#include "search/cost/memory_model.h"
#include "search/cost/split.h"

namespace autocfg {
namespace {

// What stays while the splits are gone through, and what stays while recompute is: the space's order.
bool SameButSplit(const ParallelPlan& a, const ParallelPlan& b) {
  return a.tp == b.tp && a.pp == b.pp && a.micro_batch == b.micro_batch && a.schedule == b.schedule &&
         a.virtual_stages == b.virtual_stages;
}

bool SameButRecompute(const ParallelPlan& a, const ParallelPlan& b) {
  return SameButSplit(a, b) && a.split == b.split && a.split_layers == b.split_layers &&
         a.attention == b.attention && a.scatter_gather == b.scatter_gather;
}

class Collector {
 public:
  Collector(const SearchSpace& space, CostModel& costs, std::int64_t arena_bytes, FeasiblePlans& into)
      : space_(space), costs_(costs), arena_bytes_(arena_bytes), into_(into) {}

  // A legal plan of the space, in its order.
  void Add(const ParallelPlan& plan) {
    if (!SameButSplit(plan, previous_)) group_ = into_.plans.size();
    if (!SameButRecompute(plan, previous_)) less_ = kNoPlan;
    previous_ = plan;
    if (plan.split == SplitMode::kAuto) {
      const ParallelPlan resolved = ResolveSplit(costs_, plan);
      if (space_.HoldsSplit(resolved)) {
        // What recomputes more than this plan recomputes more than its twin.
        if (const std::int32_t twin = FindInGroup(into_.table.Pack(resolved)); twin != kNoPlan)
          Passed(plan, twin);
        ++dropped_;
      } else {
        Keep(plan, resolved);
      }
    } else {
      Keep(plan, plan);
    }
  }

  std::int64_t dropped() const { return dropped_; }

 private:
  void Keep(const ParallelPlan& plan, const ParallelPlan& resolved) {
    const std::int64_t bytes = WorstRankMemory(costs_.model(), costs_.workload(), resolved).Arena();
    if (!into_.smallest || bytes < into_.smallest_bytes) {
      into_.smallest = resolved;
      into_.smallest_bytes = bytes;
    }
    if (bytes > arena_bytes_) {
      ++into_.out_of_memory;
      return;
    }
    into_.plans.push_back({.plan = into_.table.Pack(resolved), .recomputes_less = less_});
    Passed(plan, static_cast<std::int32_t>(into_.plans.size()) - 1);
  }

  // `plan`, which fits, stands at `i`: those that follow may recompute more. full:1 may recompute less than
  // selective does.
  void Passed(const ParallelPlan& plan, std::int32_t i) {
    if (plan.recompute != Recompute::kSelective) less_ = i;
  }

  std::int32_t FindInGroup(const CompactPlan& plan) const {
    for (std::size_t i = group_; i < into_.plans.size(); ++i) {
      if (into_.plans[i].plan == plan) return static_cast<std::int32_t>(i);
    }
    return kNoPlan;  // it does not fit
  }

  const SearchSpace& space_;
  CostModel& costs_;
  const std::int64_t arena_bytes_;
  FeasiblePlans& into_;
  ParallelPlan previous_{.tp = 0};
  std::size_t group_ = 0;
  std::int32_t less_ = kNoPlan;
  std::int64_t dropped_ = 0;
};

}  // namespace

FeasiblePlans FindFeasiblePlans(const SearchSpace& space, CostModel& costs, std::int64_t arena_bytes) {
  FeasiblePlans feasible;
  Collector collector(space, costs, arena_bytes, feasible);
  const SearchSpace::Counts counts = space.ForEachLegal([&](const ParallelPlan& plan) {
    collector.Add(plan);
    return true;
  });
  feasible.enumerated = counts.enumerated - collector.dropped();
  feasible.illegal = counts.illegal;
  return feasible;
}

}  // namespace autocfg
