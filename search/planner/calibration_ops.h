// What a calibration job is to time: the distinct ops of the programs of a set of plans. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

inline constexpr std::size_t kMostCalibrationOps = 400;

// The distinct ops of all actions of the first and the last rank of each plan's pipeline and of one of each
// size between them, all their stages, those first that take the largest share of the plans' steps on a
// nominal device. At most `most`; where there are more, each kind of compute op (products by their epilogue)
// and each kind, group and group size of communication keeps its two largest at least, so that the others can
// be estimated. Requires legal plans that CheckPredictable takes, with resolved splits.
std::vector<OpDesc> ListCalibrationOps(const ModelSpec& model, const Workload& workload,
                                       const std::vector<ParallelPlan>& plans,
                                       std::size_t most = kMostCalibrationOps);

}  // namespace autocfg
