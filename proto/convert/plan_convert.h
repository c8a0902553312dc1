// ParallelPlan <-> message. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/model.pb.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

v1::ParallelPlan ToProto(const ParallelPlan& plan);
// A size left at zero, and an empty option, is its default. InvalidArgument names the field.
absl::StatusOr<ParallelPlan> FromProto(const v1::ParallelPlan& message);

}  // namespace autocfg
