// The times of all plans that fit: the closed form for all, the timer for those that may be the fastest.
// Pure; the cost model's caches grow.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/planner/feasible_plans.h"

namespace autocfg {

// Simulated predictions by index of the plan.
using SimulatedPlans = std::map<std::size_t, Prediction>;

// Fills step_time_s of every plan and simulates a shortlist: of the plans that recompute as little as fits,
// the 64 fastest by the closed form, then whichever is fastest by what is known of it, until the 16 fastest
// have all been simulated; 256 at most, and three million actions in all, so that spaces of huge programs are
// answered within seconds. What recomputes more than a simulated plan is corrected by the same ratio, so that
// it is never the faster one; and of two plans that differ in scatter_gather alone, that is, in how long a
// message takes, the one that the closed form finds slower likewise.
//
// InvalidArgument, naming the plan, where a time is not positive and finite.
absl::StatusOr<SimulatedPlans> PredictTimes(CostModel& costs, FeasiblePlans& feasible);

// The prediction of one of them, consistent with the step_time_s that PredictTimes left.
Prediction PredictionOf(CostModel& costs, const FeasiblePlans& feasible, const SimulatedPlans& simulated,
                        std::size_t i);

// `p` with all parts times `factor`; the interval closes.
void Scale(Prediction& p, double factor);

}  // namespace autocfg
