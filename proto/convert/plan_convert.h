// Converts plans to and from protobuf messages by the table of plan options. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/model.pb.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/plan_options.h"

namespace autocfg {

v1::ParallelPlan ToProto(const ParallelPlan& plan);

// Parses the message. Zero sizes and empty strings mean the default. InvalidArgument names the option.
absl::StatusOr<ParallelPlan> FromProto(const v1::ParallelPlan& message);

// The same for any message that has a field for each option, by its JSON name: int64 for sizes and numbers,
// bool for flags, string for names and splits. Throws std::logic_error if a field is missing.
void PlanToMessage(const ParallelPlan& plan, google::protobuf::Message& message,
                   PlanOptionTable options = PlanOptions());
absl::StatusOr<ParallelPlan> PlanFromMessage(const google::protobuf::Message& message,
                                             PlanOptionTable options = PlanOptions());

}  // namespace autocfg
