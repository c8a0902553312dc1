// How the predicted time of a step divides into parts. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "search/breakdown/step_breakdown.h"
#include "search/cost/timing/closed_form.h"
#include "search/cost/timing/pipeline_costs.h"

namespace autocfg {

// Returns the least time of a pipeline whose ranks share cores: the ranks' mean forward and backward time of
// all microbatches, in seconds.
double SharedCoreSeconds(const PipelineCosts& costs, std::int64_t microbatches);

// Returns the breakdown of a step whose pipeline ends as `pipeline` says (closed_form.h).
Breakdown BreakdownOf(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core,
                      const PipelineEnd& pipeline);

// Returns the breakdown of a timed pipeline. `worked_s`: by rank, the end of its last backward, in seconds
// since the begin of the step.
Breakdown BreakdownOf(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core,
                      std::span<const double> worked_s);

}  // namespace autocfg
