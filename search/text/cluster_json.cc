#include "search/text/cluster_json.h"

#include <charconv>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/text/embedded_presets.h"
#include "search/text/json_util.h"
#include "search/text/suggest.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

std::optional<DeviceKind> ParseDeviceKind(std::string_view name) {
  if (name == "cpu") return DeviceKind::kCpu;
  if (name == "cuda") return DeviceKind::kCuda;
  return std::nullopt;
}

absl::StatusOr<DeviceSpec> ParseDeviceJson(const Json& json) {
  DeviceSpec device{.kind = DeviceKind::kCuda};
  FieldReader reader("cluster: device", json);
  reader.Require("memory_bytes");
  reader.String("name", device.name);
  reader.Named("kind", device.kind, ParseDeviceKind, {"cpu", "cuda"});
  reader.Size("memory_bytes", device.memory_bytes);
  reader.Number("memory_bytes_per_s", device.memory_bytes_per_s);
  if (const Json* rates = reader.Find("flops_per_s"); rates != nullptr) {
    FieldReader rate("cluster: device: flops_per_s", *rates);
    rate.Number("fp64", device.flops_per_s_fp64);
    rate.Number("fp32", device.flops_per_s_fp32);
    rate.Number("bf16", device.flops_per_s_bf16);
    rate.Number("fp16", device.flops_per_s_fp16);
    reader.Fail(rate.Finish());
  }
  std::string source;
  reader.String("source", source);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return device;
}

Json DeviceJson(const DeviceSpec& device) {
  Json rates = Json::object();
  for (const auto& [name, rate] : {std::pair<const char*, double>{"fp64", device.flops_per_s_fp64},
                                   {"fp32", device.flops_per_s_fp32},
                                   {"bf16", device.flops_per_s_bf16},
                                   {"fp16", device.flops_per_s_fp16}}) {
    if (rate > 0) rates[name] = rate;
  }
  return {
      {"name", device.name},
      {"kind", device.kind == DeviceKind::kCpu ? "cpu" : "cuda"},
      {"memory_bytes", device.memory_bytes},
      {"memory_bytes_per_s", device.memory_bytes_per_s},
      {"flops_per_s", rates},
  };
}

void AddGroup(Json& json, const NodeGroup& group) {
  json["device"] = DeviceJson(group.device);
  json["nodes"] = group.nodes;
  json["gpus_per_node"] = group.gpus_per_node;
  json["intra_node_bytes_per_s"] = group.intra_node_bytes_per_s;
  json["inter_node_bytes_per_s"] = group.inter_node_bytes_per_s;
  json["intra_node_latency_s"] = group.intra_node_latency_s;
  json["inter_node_latency_s"] = group.inter_node_latency_s;
  json["ranks_per_core"] = group.ranks_per_core;
}

// A positive number of at most a million, digits only.
std::optional<std::int64_t> ParseCount(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 1'000'000) return std::nullopt;
  return value;
}

}  // namespace

absl::StatusOr<ClusterSpec> ParseClusterJson(const Json& json) {
  ClusterSpec cluster;
  NodeGroup group;
  FieldReader reader("cluster", json);
  for (const std::string_view later : {"groups", "calibration"}) {
    if (reader.Find(later) != nullptr) {
      return absl::UnimplementedError(fmt::format("cluster: {} is not supported yet; leave it out", later));
    }
  }
  for (const std::string_view name : {"device", "nodes", "gpus_per_node"}) reader.Require(name);
  reader.String("name", cluster.name);
  reader.Bool("local", cluster.local);
  if (const Json* device = reader.Find("device"); device != nullptr) {
    absl::StatusOr<DeviceSpec> parsed =
        device->is_string() ? DevicePreset(device->get_ref<const std::string&>()) : ParseDeviceJson(*device);
    reader.Fail(parsed.status());
    if (parsed.ok()) group.device = *std::move(parsed);
  }
  reader.Size("nodes", group.nodes);
  reader.Size("gpus_per_node", group.gpus_per_node);
  reader.Number("intra_node_bytes_per_s", group.intra_node_bytes_per_s);
  reader.Number("inter_node_bytes_per_s", group.inter_node_bytes_per_s);
  reader.Number("intra_node_latency_s", group.intra_node_latency_s);
  reader.Number("inter_node_latency_s", group.inter_node_latency_s);
  reader.Number("ranks_per_core", group.ranks_per_core);
  std::string source;
  reader.String("source", source);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  cluster.groups.push_back(std::move(group));
  if (absl::Status status = Validate(cluster); !status.ok()) return status;
  return cluster;
}

Json ClusterJson(const ClusterSpec& cluster) {
  Json json = {{"name", cluster.name}, {"local", cluster.local}};
  if (cluster.groups.size() == 1) {
    AddGroup(json, cluster.groups.front());
    return json;
  }
  json["groups"] = Json::array();
  for (const NodeGroup& group : cluster.groups) {
    Json entry = Json::object();
    AddGroup(entry, group);
    json["groups"].push_back(std::move(entry));
  }
  return json;
}

absl::StatusOr<ClusterName> ParseClusterName(std::string_view text) {
  ClusterName name;
  const std::size_t colon = text.find(':');
  name.preset = std::string(text.substr(0, colon));
  if (name.preset.empty()) {
    return absl::InvalidArgumentError("cluster: the name is empty; give local, a preset such as NAME:2x8, or a file");
  }
  if (colon == std::string_view::npos) return name;
  const std::string_view size = text.substr(colon + 1);
  const std::size_t cross = size.find('x');
  const std::optional<std::int64_t> nodes = ParseCount(size.substr(0, cross));
  const std::optional<std::int64_t> gpus =
      cross == std::string_view::npos ? std::nullopt : ParseCount(size.substr(cross + 1));
  if (!nodes || !gpus) {
    return absl::InvalidArgumentError(
        fmt::format("cluster: the size \"{}\" is not NODESxRANKS, two numbers from 1 to 1000000, as in {}:2x8",
                    Printable(size), Printable(name.preset)));
  }
  name.nodes = *nodes;
  name.gpus_per_node = *gpus;
  return name;
}

std::vector<std::string> DevicePresetNames() {
  std::vector<std::string> names;
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind == "devices") names.emplace_back(preset.name);
  }
  return names;
}

absl::StatusOr<DeviceSpec> DevicePreset(std::string_view name) {
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind != "devices" || preset.name != name) continue;
    absl::StatusOr<Json> json = ParseJson("cluster: device", preset.json);
    if (!json.ok()) return json.status();
    return ParseDeviceJson(*json);
  }
  std::vector<std::string> known = DevicePresetNames();
  known.emplace_back("local");
  return absl::NotFoundError(
      fmt::format("cluster: no preset is called \"{}\"{}", Printable(name), DidYouMean(name, known)));
}

}  // namespace autocfg
