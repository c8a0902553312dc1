// Clusters as JSON and by preset name with size, "a100-80gb-sxm:64x8" (docs/formats.md, "Cluster"). Pure
// functions, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/cluster_spec.h"

namespace autocfg {

// "device" is a preset's name, whose sizes and links stand in for those that the object leaves out; "local",
// machines like this one, of which nothing else is known (kind cpu, memory 0); or an object of figures.
// InvalidArgument names the field: missing, unknown (with the nearest names), out of bounds; Unimplemented
// names what is not supported yet.
absl::StatusOr<ClusterSpec> ParseClusterJson(const nlohmann::ordered_json& json);
nlohmann::ordered_json ClusterJson(const ClusterSpec& cluster);

// "NAME", "NAME:NODESxGPUS": the parts. InvalidArgument where the size is not two positive numbers.
struct ClusterName {
  std::string preset;
  std::int64_t nodes = 0;  // 0: no size given
  std::int64_t gpus_per_node = 0;
};
absl::StatusOr<ClusterName> ParseClusterName(std::string_view text);

// A preset with its size, "a100-80gb-sxm:64x8"; one node of its usual size where none is given. Device, links
// and latencies are the preset's. NotFound, with the nearest names ("local" among them), for an unknown
// preset; InvalidArgument as ParseClusterName.
absl::StatusOr<ClusterSpec> PresetCluster(std::string_view text);
std::vector<std::string> DevicePresetNames();

}  // namespace autocfg
