// The engines whose training step can be predicted, from search/data/engines; a file may name another engine
// whose figures it has. Pure functions, thread-safe.
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

// Returns the engine that the text names, as EngineText writes it: a name, or a name with settings of a run
// that replace figures of its file, such as "megatron:logit_bytes=8". With the subject "engine": NotFound
// lists the names; InvalidArgument names a setting that is unknown, repeated, of a wrong type or out of
// bounds.
absl::StatusOr<EngineProfile> EngineNamed(std::string_view text);

// Returns the profile of an engine that workers offer by their own files: that of the name, else our own
// engine's figures under the name. InvalidArgument with the subject "engine" if it is no name.
absl::StatusOr<EngineProfile> EngineOfWorkers(std::string_view name);

// InvalidArgument names a field that is unknown, of a wrong type or out of bounds.
absl::StatusOr<EngineProfile> ParseEngineJson(const nlohmann::ordered_json& json);

}  // namespace autocfg
