// The order in which a rank of the pipeline runs the forwards and backwards of its stages. One generator for
// each schedule makes it (gpipe, one_f_one_b, interleaved). Pure, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/plan/parallel_plan.h"
#include "search/schedule/action.h"

namespace autocfg {

// A forward or backward of a stage of the model (search/plan/model_stages.h).
struct StageCompute {
  ActionKind kind = ActionKind::kForward;
  std::int32_t stage = 0;
};

// Computes that a rank goes through in turn, around and around, until it has run `count` of them.
struct ComputeLoop {
  std::vector<StageCompute> computes;
  std::int64_t count = 0;
};

// What a generator makes: all computes of a rank, in order. The n-th forward of a stage is that of microbatch
// n, and so is its n-th backward. The size depends on the pipeline, not on the number of microbatches.
using ComputeLoops = std::vector<ComputeLoop>;

// The loops of the plan's schedule. Requires a canonical plan, legal with that many microbatches, whose
// schedule CheckPredictable accepts (throws std::logic_error otherwise).
ComputeLoops MakeComputeLoops(const ParallelPlan& plan, std::int64_t pipeline_rank,
                              std::int64_t microbatches);

// Every compute of the loops, with its microbatch.
ComputeOrder Unroll(const ComputeLoops& loops);

// Unroll(MakeComputeLoops(...)).
ComputeOrder MakeComputeOrder(const ParallelPlan& plan, int pipeline_rank, int microbatches);

// The most microbatches whose forward on this stage has run and whose backward has not, at any time: the
// activation slots that the stage needs. InFlight (in_flight.h) is the same in closed form.
int MaxInFlight(const ComputeOrder& order, int stage);

}  // namespace autocfg
