// Enumerates the plans of a search that fit in memory, with definite splits, in compact form. Pure, except
// that the cost model's caches grow.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ordered_tasks.h"
#include "search/cost/cost_model.h"
#include "search/planner/planning.h"
#include "search/planner/plans/plan_table.h"
#include "search/space/search_space.h"

namespace autocfg {

inline constexpr std::int32_t kNoPlan = -1;

struct FeasiblePlan {
  CompactPlan plan;
  // Index of an earlier plan that does a part of the same work, and so is never slower: of plans that shard
  // gradients or parameters, the one with a lower zero, whose collectives are fewer, if it fits and
  // recomputes as little; where recompute is named, the closest one that is the same but recomputes less.
  // kNoPlan if there is none.
  std::int32_t less_work = kNoPlan;
  // With scatter_gather=1: index of the earlier plan that is the same without it; kNoPlan if there is none.
  std::int32_t sends_whole = kNoPlan;
  std::uint32_t arena_kib = 0;  // of the worst rank, rounded up; at most 4 TiB
  // The least that it takes with more recompute: arena_kib if recompute is named.
  std::uint32_t least_kib = 0;
  // 0 until predicted. Negative: not computed yet, and at least so many seconds (lazy_times.h).
  double step_time_s = 0;

  bool IsTimed() const { return step_time_s > 0; }
  double SecondsAtLeast() const { return std::abs(step_time_s); }
};

struct FeasiblePlans {
  std::vector<FeasiblePlan> plans;  // in the space's order
  PlanTable table;
  // Plans of the front of time against memory that recompute more than the least that fits; less_work is the
  // plan with the least (LazyTimes::TimeFront).
  std::vector<FeasiblePlan> deeper;
  std::int64_t enumerated = 0;
  std::int64_t out_of_memory = 0;
  std::array<std::int64_t, kIllegalReasonCount> illegal{};
  std::optional<ParallelPlan> smallest;  // of all legal plans, the one that needs the least memory
  std::int64_t smallest_bytes = 0;       // of its worst rank's arena
  // The layout at which the budget ended, if it did: later ones of the space were not gone through.
  std::optional<MeshOptions> cut_off_at;

  ParallelPlan PlanAt(std::size_t i) const { return table.Unpack(plans[i].plan); }
  ParallelPlan DeeperAt(std::size_t i) const { return table.Unpack(deeper[i].plan); }
  std::size_t Bytes() const { return plans.capacity() * sizeof(FeasiblePlan) + table.Bytes(); }
};

// Called with a plan that is rejected, in the space's order: with the first rule that it breaks, or with no
// rule and its split resolved if it does not fit in memory. Returns whether to be called again.
using VisitRejected = std::function<bool(const ParallelPlan&, std::optional<IllegalReason>)>;

// Returns the legal plans of `space` whose worst rank's arena takes at most `arena_bytes`. A derived depth of
// recompute is the least one that fits: more only adds work. `costs` resolves split=auto; threads other than
// the calling one use copies. If the result equals a split that the space enumerates anyway, the plan is a
// duplicate: it is dropped and not counted. enumerated = illegal + out_of_memory + plans. Ends early, with
// what was found, when the budget is used up. Cancelled once `watch` says no. Slower with `rejected`, since
// illegal plans are else counted many at once, and since one thread does all. The result is the same for any
// number of threads.
absl::StatusOr<FeasiblePlans> FindFeasiblePlans(const SearchSpace& space, CostModel& costs,
                                                std::int64_t arena_bytes, const PlanningBudget& budget = {},
                                                const PlanningWatch& watch = {},
                                                const VisitRejected& rejected = {},
                                                const base::TaskThreads& threads = {});

}  // namespace autocfg
