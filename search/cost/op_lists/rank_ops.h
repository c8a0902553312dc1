// Lists the ops of the actions that a rank runs once in a step: reductions, the optimizer, the gathering of
// parameters. Companion of action_ops.h, with the same requirements. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/run_view.h"
#include "search/schedule/action.h"

namespace autocfg {

// An op that is issued `times` times in a row.
struct RepeatedOp {
  OpDesc op;
  std::int64_t times = 1;
};

// The coordinates of a rank among those at the same pipeline coordinate.
struct StateCoordinates {
  std::int64_t tensor = 0;
  std::int64_t data = 0;
};

// Returns the ops of an action of the whole rank (IsMicrobatch is false). Throws std::logic_error for others.
// The sum of squares (GradientNormOp) and the update of parameters depend on the coordinates, and so do the
// sums of key-value heads that ranks share, of which data coordinate 0 has the most.
std::vector<RepeatedOp> RankOps(const RunView& run, std::int64_t pipeline_rank, ActionKind kind,
                                StateCoordinates coordinates = {});

// Returns the sum of squares of the gradients whose states the rank has, over all its stages, with 0 elements
// if there are none, and then it is not issued. It counts each parameter of the model on one rank: it leaves
// out the last pipeline rank's copy of a tied table, replicated parameters at tensor coordinates other than
// 0, shared heads on ranks other than the first of those that share them, and everything on replicas other
// than the first.
OpDesc GradientNormOp(const RunView& run, std::int64_t pipeline_rank, StateCoordinates coordinates = {});

// Returns the sum of the step's scalars (loss, squared gradient norm) over all ranks. Requires several ranks.
OpDesc ScalarReduceOp(const ParallelPlan& plan);

}  // namespace autocfg
