// Converts a cluster's calibration to and from its message. Pure, thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/model.pb.h"
#include "search/plan/cluster/calibration.h"

namespace autocfg {

v1::Calibration ToProto(const Calibration& calibration);
absl::StatusOr<Calibration> FromProto(const v1::Calibration& message);  // to be validated

}  // namespace autocfg
