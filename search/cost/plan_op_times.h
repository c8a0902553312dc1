// Lists the time of every op of a plan; the paced device takes its op times from this list. Pure,
// thread-safe.
#pragma once

#include <vector>

#include "search/cost/op_times/op_time_model.h"
#include "search/cost/op_times/op_times.h"
#include "search/plan/run_view.h"

namespace autocfg {

// Returns every distinct op that any rank of the plan issues in a step, in ascending order, with its seconds.
// Requires a legal plan that CheckPredictable accepts, with a resolved split.
std::vector<OpTime> PlanOpTimes(const RunView& run, const OpTimeModel& times);

// Returns only the ops, in ascending order.
std::vector<OpDesc> PlanOps(const RunView& run);

}  // namespace autocfg
