// The time of a step by the walk of its pipeline (pipeline_walk.h), from the costs of its stages and ranks;
// what the simulator gives for the program (the tests hold them equal). Pure, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// When each rank's last backward ends, with the costs of a pipeline of at least two ranks, as many stages on
// each. `ranks_per_core`: as ClosedForm's.
std::vector<double> WalkedEnds(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                               double ranks_per_core);

// When the step ends: after its last backward a rank's gradients are reduced, then the tied embedding's on
// the first and the last rank, then the scalars on all; then all update.
double StepEnd(const PipelineCosts& costs, const std::vector<double>& last_backward_s);

}  // namespace autocfg
