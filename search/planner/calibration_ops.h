// Lists the distinct ops of a set of plans' programs, which a calibration job times. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

inline constexpr std::size_t kMostCalibrationOps = 400;

// Returns the distinct ops of all actions, over all stages, of the first and the last rank of each plan's
// pipeline and of one middle rank of each size. Ops with the largest share of the plans' steps on a nominal
// device, for the time that it takes to measure them, come first: a calibration may end early.
//
// Returns at most `most` ops, those of the largest share. If there are more, at least the two largest of
// each family are kept, so that the others can be estimated. A family is a kind of compute op (matmuls by
// their epilogue), or a kind, group and group size of communication. Requires legal plans that
// CheckPredictable accepts, with resolved splits.
std::vector<OpDesc> ListCalibrationOps(const ModelSpec& model, const Workload& workload,
                                       const std::vector<ParallelPlan>& plans,
                                       std::size_t most = kMostCalibrationOps);

}  // namespace autocfg
