// Converts models to and from JSON and from preset names (docs/formats.md, "Model"). Pure functions,
// thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/model_spec.h"

namespace autocfg {

// InvalidArgument names a field that is missing, unknown (with the nearest names), of the wrong type or out
// of range. Defaults that depend on the sequence length remain zero until FillDefaults.
absl::StatusOr<ModelSpec> ParseModelJson(const nlohmann::ordered_json& json);
// As above. InvalidArgument with line and column if the text is not JSON.
absl::StatusOr<ModelSpec> ParseModelText(std::string_view text);
nlohmann::ordered_json ModelJson(const ModelSpec& model);

// NotFound, with the nearest names, for an unknown preset.
absl::StatusOr<ModelSpec> ModelPreset(std::string_view name);
std::vector<std::string> ModelPresetNames();

}  // namespace autocfg
