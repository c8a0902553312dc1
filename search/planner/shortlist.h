// Predicts the times of all plans that fit: by the closed form for all, by the timer for those that may
// be the fastest. Pure, except that the cost model's caches grow.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/lazy_times.h"

namespace autocfg {

// Timed predictions by plan index.
using TimedPlans = std::map<std::size_t, Prediction>;

// Fills in the time of every plan, by its fastest choice, and times a shortlist.
//
// The shortlist is drawn from the plans with the least work that fit: first the 64 fastest by the
// closed form, then always the currently fastest one, until the 16 fastest are all timed. Limits are 256
// plans and 1.5 million actions in total, so that spaces with huge programs are answered within seconds.
//
// Plans that do more work than a timed plan (FeasiblePlan::less_work) are scaled by the same ratio, so that
// they are never faster.
//
// InvalidArgument, naming the plan, if a time is not positive and finite. Cancelled once `watch` says no.
//
// With `lazy`, most plans get a lower bound of their time, and `lazy` computes times when they are needed.
// They are the same to the bit. Requires op times that know every op: no time is missing.
absl::StatusOr<TimedPlans> PredictTimes(CostModel& costs, FeasiblePlans& feasible,
                                        const PlanningWatch& watch = {}, LazyTimes* lazy = nullptr);

// Returns the prediction of plan `i`, consistent with the time from PredictTimes.
Prediction PredictionOf(CostModel& costs, const FeasiblePlans& feasible, const TimedPlans& timed,
                        std::size_t i);

}  // namespace autocfg
