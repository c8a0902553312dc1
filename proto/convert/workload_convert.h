// Conversion between Workload and its message. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/model.pb.h"
#include "search/plan/workload.h"

namespace autocfg {

v1::Workload ToProto(const Workload& workload);
// InvalidArgument names the bad field. Does not check upper bounds, which depend on the model; Validate
// checks them.
absl::StatusOr<Workload> FromProto(const v1::Workload& message);

}  // namespace autocfg
