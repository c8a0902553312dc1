// Lists the ops that each action of a program issues on one rank, in order, from model, workload and plan.
// The trainer issues exactly these ops (a test records them on the dry device). docs/engine.md is the common
// specification. Pure functions, thread-safe.
//
// The lists are for tensor and data coordinate 0. The other ranks at a pipeline coordinate issue the same
// ops, except for those of rank_ops.h that depend on the coordinates. Requires a legal plan that
// CheckPredictable accepts, with a resolved split.
#pragma once

#include <cstdint>
#include <vector>

#include "search/cost/op_lists/rank_ops.h"
#include "search/ops/op_desc.h"
#include "search/plan/run_view.h"
#include "search/schedule/action.h"

namespace autocfg {

// Returns the ops of one action of a rank's program: those of search/blocks in the action's order, with the
// collectives of units, its message, or its RankOps. A forward, backward or part of a backward needs the
// action's stage and microbatch: that of microbatch 0 writes the gradients (WritesGradients), and the last
// compute of the rank may reduce them (IsLastCompute). Throws std::logic_error if the stage is missing or
// belongs to another rank. Actions of the whole rank have stage -1.
std::vector<OpDesc> ActionOps(const RunView& run, std::int64_t pipeline_rank, const Action& action);

// Returns the collectives of units, and the adds of reduced gradients, that all computes of a rank issue in a
// step. Gathers of the embedding and the output layer are counted once for each microbatch, though some plans
// issue one more.
std::vector<RepeatedOp> UnitOpsOfComputes(const RunView& run, std::int64_t pipeline_rank);

}  // namespace autocfg
