// Converts clusters to and from JSON and from preset names with a size, such as "a100-80gb-sxm:64x8"
// (docs/formats.md, "Cluster"). Pure functions, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/cluster/cluster_spec.h"

namespace autocfg {

// Parses a cluster. "device" is one of:
//
// - a preset's name; its sizes and links replace those that the object leaves out;
// - "local": machines like this one, without further figures (kind cpu, memory 0);
// - an object of figures.
//
// InvalidArgument names a field that is missing, unknown (with the nearest names) or out of bounds.
// Unimplemented names what is not supported yet.
absl::StatusOr<ClusterSpec> ParseClusterJson(const nlohmann::ordered_json& json);
nlohmann::ordered_json ClusterJson(const ClusterSpec& cluster);

// The parts of "NAME" or "NAME:NODESxGPUS". InvalidArgument if the size is not two positive numbers.
struct ClusterName {
  std::string preset;
  std::int64_t nodes = 0;  // 0: no size given
  std::int64_t gpus_per_node = 0;
};
absl::StatusOr<ClusterName> ParseClusterName(std::string_view text);

// Returns a preset with its size, "a100-80gb-sxm:64x8", or one node of its usual size if no size is given.
// Device, links and latencies are the preset's. NotFound, with the nearest names ("local" among them), for an
// unknown preset; InvalidArgument as ParseClusterName.
absl::StatusOr<ClusterSpec> PresetCluster(std::string_view text);
std::vector<std::string> DevicePresetNames();

}  // namespace autocfg
