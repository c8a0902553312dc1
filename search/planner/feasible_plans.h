// Enumerates the plans of a search that fit in memory, with definite splits, in compact form. Pure, except
// that the cost model's caches grow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/planner/planning.h"
#include "search/planner/plans/plan_table.h"
#include "search/space/search_space.h"

namespace autocfg {

inline constexpr std::int32_t kNoPlan = -1;

// Values of the derived options of a plan (SearchSpace::Alternative), with the least recompute that fits, or
// with full recompute where that may be faster.
struct PlanChoice {
  CompactPlan plan = {};
  std::uint32_t arena_kib = 0;  // of the worst rank, rounded up; at most 4 TiB
};

// What the lower bound of a plan's time is, from the quickest to the closest.
enum class TimeBound : std::uint8_t { kOfLessWork, kOfPlan, kClosedForm };

struct FeasiblePlan {
  PlanChoice choice = {};  // the fastest one, once the plan is timed
  // Other choices, in FeasiblePlans::others: the first, and how many.
  std::uint32_t first_other = 0;
  std::uint16_t others = 0;
  bool timed = false;
  TimeBound bound = TimeBound::kOfPlan;  // until it is timed
  // Index of an earlier plan that does a part of the same work, and so is never slower: of plans that shard
  // gradients or parameters, the one with a lower zero, whose collectives are fewer, if each of its choices
  // recomputes as little; where recompute is named, the closest one that is the same but recomputes less.
  // kNoPlan if there is none.
  std::int32_t less_work = kNoPlan;
  std::uint32_t least_kib = 0;  // the least that any of its choices takes with more recompute
  double seconds = 0;           // the step; until it is timed, a lower bound of it (lazy_times.h)
};

struct FeasiblePlans {
  std::vector<FeasiblePlan> plans;  // in the space's order
  std::vector<PlanChoice> others;
  PlanTable table;
  // Plans of the front of time against memory that are a slower choice of one of `plans`, which less_work
  // names, or recompute more than the least that fits (LazyTimes::TimeFront).
  std::vector<FeasiblePlan> slower;
  std::int64_t enumerated = 0;
  std::int64_t out_of_memory = 0;
  std::array<std::int64_t, kIllegalReasonCount> illegal{};
  std::optional<ParallelPlan> smallest;  // of all legal plans, the one that needs the least memory
  std::int64_t smallest_bytes = 0;       // of its worst rank's arena
  // The layout at which the budget ended, if it did: later ones of the space were not gone through.
  std::optional<MeshOptions> cut_off_at;

  ParallelPlan PlanAt(std::size_t i) const { return table.Unpack(plans[i].choice.plan); }
  ParallelPlan SlowerAt(std::size_t i) const { return table.Unpack(slower[i].choice.plan); }
  std::span<PlanChoice> OthersOf(const FeasiblePlan& plan) {
    return std::span(others).subspan(plan.first_other, plan.others);
  }
  std::span<const PlanChoice> OthersOf(const FeasiblePlan& plan) const {
    return std::span(others).subspan(plan.first_other, plan.others);
  }
  std::size_t Bytes() const {
    return plans.capacity() * sizeof(FeasiblePlan) + others.capacity() * sizeof(PlanChoice) + table.Bytes();
  }
};

// Called with a plan that is rejected, in the space's order: with the first rule that it breaks, or with no
// rule and its split resolved if it does not fit in memory. Returns whether to be called again.
using VisitRejected = std::function<bool(const ParallelPlan&, std::optional<IllegalReason>)>;

// Returns the legal plans of `space` of which some choice of the derived options has a worst rank whose arena
// takes at most `arena_bytes`. A derived depth of recompute is the least one that fits: more only adds work,
// but where weight gradients are delayed and sharded, so that full recompute is another choice there.
// `costs` resolves split=auto. If a named split=auto gives a split that the space enumerates anyway, the plan
// is a duplicate: it is dropped and not counted. enumerated = illegal + out_of_memory + plans. Ends early,
// with what was found, when the budget is used up. Cancelled once `watch` says no. Slower with `rejected`,
// since illegal plans are else counted many at once.
absl::StatusOr<FeasiblePlans> FindFeasiblePlans(const SearchSpace& space, CostModel& costs,
                                                std::int64_t arena_bytes, const PlanningBudget& budget = {},
                                                const PlanningWatch& watch = {},
                                                const VisitRejected& rejected = {});

}  // namespace autocfg
