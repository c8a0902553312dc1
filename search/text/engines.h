// The engines whose training step can be predicted, from search/data/engines. Pure functions, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/cluster/engine_profile.h"

namespace autocfg {

// autocfg first, then the others by name.
std::vector<std::string> EngineNames();

// NotFound with the subject "engine" lists the names.
absl::StatusOr<EngineProfile> EngineNamed(std::string_view name);

// InvalidArgument names a field that is unknown, of a wrong type or out of bounds.
absl::StatusOr<EngineProfile> ParseEngineJson(const nlohmann::ordered_json& json);

}  // namespace autocfg
