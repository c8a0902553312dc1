// Converts a cluster's calibration to and from JSON (docs/formats.md, "Calibration"). Pure functions,
// thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/cluster/calibration.h"

namespace autocfg {

// InvalidArgument names a field that is missing, unknown, or of a wrong type. Validate checks the values.
absl::StatusOr<Calibration> ParseCalibrationJson(const nlohmann::ordered_json& json);
nlohmann::ordered_json CalibrationJson(const Calibration& calibration);

}  // namespace autocfg
