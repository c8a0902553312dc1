// The order in which a rank of the pipeline runs the forwards and backwards of its stages. Generators make
// it, one file each (gpipe, one_f_one_b, interleaved). Pure, thread-safe.
#pragma once

#include "search/plan/parallel_plan.h"
#include "search/schedule/action.h"

namespace autocfg {

// The order of the plan's schedule; every action carries its stage of the model (search/plan/model_stages.h).
// Requires a canonical plan, legal with that many microbatches, whose schedule CheckPredictable accepts
// (throws std::logic_error otherwise).
ComputeOrder MakeComputeOrder(const ParallelPlan& plan, int pipeline_rank, int microbatches);

// The most microbatches whose forward on this stage has run and whose backward has not, at any time: the
// activation slots that the stage needs. InFlight (in_flight.h) is the same in closed form.
int MaxInFlight(const ComputeOrder& order, int stage);

}  // namespace autocfg
