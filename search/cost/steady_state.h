// The time of a pipeline of many microbatches from a run of fewer. Pure but for what it is given,
// thread-safe.
//
// Once a pipeline is full, each further group of microbatches takes its ranks through the same moves, later
// by the same time. Where a run shows that for every forward and backward of two groups in a row, on every
// rank, nothing that comes until the pipeline drains can be different: what they wait for lies less than a
// group back. So more groups in between only add that time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "search/plan/parallel_plan.h"

namespace autocfg {

// The ends of a pipeline rank's forwards and of its backwards, each in order.
struct ComputeEnds {
  std::vector<double> forwards;
  std::vector<double> backwards;
};

struct PipelineRun {
  double step_s = 0;
  double pipeline_end_s = 0;       // the last backward's
  std::vector<ComputeEnds> ranks;  // of the pipeline, in order
};

// `run(n)` gives the pipeline of the plan with n microbatches. Returns the run of `microbatches` itself, or a
// shorter one that has become steady, with step_s and pipeline_end_s moved to what they are for all
// microbatches (the ends in `ranks` stay as they were). Runs longer and longer ones until one is steady.
// Requires a legal, canonical plan, and a positive count that is legal with it.
PipelineRun ExtendSteadyState(const ParallelPlan& plan, std::int64_t microbatches,
                              const std::function<PipelineRun(std::int64_t)>& run);

}  // namespace autocfg
