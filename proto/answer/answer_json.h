// A search's answer as JSON (docs/formats.md, "best.json"): what `search --json` and `--output` write, and
// what a report's page shows. answer_file.h reads it. Pure functions, thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer.h"
#include "search/plan/cluster/engine_device.h"

namespace autocfg {

// InvalidArgument if a plan in the answer is invalid.
absl::StatusOr<nlohmann::ordered_json> AnswerJson(const SearchAnswer& answer);

// `device`: the device that measured or trained.
nlohmann::ordered_json VersionsJson(EngineDevice device);
// Sets what trained: its name and its version, which of the built-in engine is that of the build.
void SetEngine(const v1::Measurement& measurement, nlohmann::ordered_json& json);
// Sets breakdown_s, exposed_comm_s and hidden_comm_s to what is known of a step, and the rest to null. Null:
// nothing is known.
void SetBreakdown(const v1::Breakdown* breakdown, nlohmann::ordered_json& json);

}  // namespace autocfg
