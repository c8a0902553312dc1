// Clusters as JSON and by preset name with size, "a100-80gb-sxm:64x8" (CONTRACT.md, "JSON"). Pure functions, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/cluster_spec.h"

namespace autocfg {

// InvalidArgument names the field.
absl::StatusOr<ClusterSpec> ParseClusterJson(const nlohmann::ordered_json& json);
nlohmann::ordered_json ClusterJson(const ClusterSpec& cluster);

// "NAME", "NAME:NODESxGPUS": the parts. InvalidArgument where the size is not two positive numbers.
struct ClusterName {
  std::string preset;
  std::int64_t nodes = 0;  // 0: no size given
  std::int64_t gpus_per_node = 0;
};
absl::StatusOr<ClusterName> ParseClusterName(std::string_view text);

// NotFound, with the nearest names ("local" among them), for an unknown preset.
absl::StatusOr<DeviceSpec> DevicePreset(std::string_view name);
std::vector<std::string> DevicePresetNames();

}  // namespace autocfg
