// Conversion between ClusterSpec and its message. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/model.pb.h"
#include "search/plan/cluster_spec.h"

namespace autocfg {

v1::ClusterSpec ToProto(const ClusterSpec& cluster);
// InvalidArgument names the bad field.
absl::StatusOr<ClusterSpec> FromProto(const v1::ClusterSpec& message);

}  // namespace autocfg
