// Conversion between model, workload, cluster or plan and its message; plans by the table of plan options.
// Thread-safe.
//
// Each FromProto returns InvalidArgument, which names the bad field.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/model.pb.h"
#include "search/plan/cluster/cluster_spec.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/plan_options.h"
#include "search/plan/workload.h"

namespace autocfg {

v1::ModelSpec ToProto(const ModelSpec& model);
// Fills unset fields with the defaults that the message states. Does not call FillDefaults.
absl::StatusOr<ModelSpec> FromProto(const v1::ModelSpec& message);

v1::Workload ToProto(const Workload& workload);
// Does not check upper bounds, which depend on the model; Validate checks them.
absl::StatusOr<Workload> FromProto(const v1::Workload& message);

v1::ClusterSpec ToProto(const ClusterSpec& cluster);
absl::StatusOr<ClusterSpec> FromProto(const v1::ClusterSpec& message);

v1::ParallelPlan ToProto(const ParallelPlan& plan);

// Zero sizes and empty strings mean the default.
absl::StatusOr<ParallelPlan> FromProto(const v1::ParallelPlan& message);

// The same for any message that has a field for each option, by its JSON name: int64 for sizes and numbers,
// bool for flags, string for names and splits. Throws std::logic_error if a field is missing.
void PlanToMessage(const ParallelPlan& plan, google::protobuf::Message& message,
                   PlanOptionTable options = PlanOptions());
absl::StatusOr<ParallelPlan> PlanFromMessage(const google::protobuf::Message& message,
                                             PlanOptionTable options = PlanOptions());

}  // namespace autocfg
