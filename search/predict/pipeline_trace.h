// The predicted timeline of one pipeline of a plan, whatever the number of its ranks. Pure, except that the
// cost model's caches grow.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "search/cost/cost_model.h"
#include "search/cost/timing/program_timer.h"
#include "search/plan/parallel_plan.h"
#include "search/schedule/program.h"

namespace autocfg {

struct PipelineTrace {
  // Of a plan with as few tensor and data ranks as keep all actions: its pipeline ranks do what those of the
  // plan do.
  Program program;
  double step_time_s = 0;
  std::vector<std::vector<TraceRow>> ranks;  // by pipeline rank, at tensor and data coordinate 0; by action
};

// Times the program of one pipeline with the costs of the plan's ranks. The same times as CostModel::Trace
// gives these ranks. Requires a legal, canonical plan with a definite split. InvalidArgument, with the
// figures, if the program is too large (CheckProgramSize).
absl::StatusOr<PipelineTrace> TracePipeline(CostModel& costs, const ParallelPlan& plan);

}  // namespace autocfg
