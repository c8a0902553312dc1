#include "search/text/cluster_json.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/json_fields.h"
#include "base/json_reader.h"
#include "base/numbers.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/text/calibration_json.h"
#include "search/text/presets.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

// Returns the unit of a field that also takes a text, of any object in a cluster.
std::optional<base::Quantity> QuantityOf(std::string_view name) {
  const auto in = [&](const auto& fields) -> std::optional<base::Quantity> {
    for (const base::FieldTraits& field : fields) {
      if (field.name == name) return field.quantity;
    }
    return std::nullopt;
  };
  const auto of_rates = in(RateFields()), of_device = in(DeviceFields()), of_group = in(NodeGroupFields());
  return of_rates ? of_rates : of_device ? of_device : of_group;
}

absl::StatusOr<DeviceSpec> ParseDeviceJson(const Json& json) {
  DeviceSpec device;
  base::FieldReader reader("cluster", json, "device");
  base::RequireFields(reader, DeviceFields());
  base::ReadFields(reader, DeviceFields(), device);
  if (const Json* rates = reader.Find("flops_per_s"); rates != nullptr) {
    base::FieldReader rate("cluster", *rates, "device: flops_per_s");
    base::ReadFields(rate, RateFields(), device);
    reader.Fail(rate.Finish());
  }
  if (const Json* efficiency = reader.Find("efficiency"); efficiency != nullptr) {
    base::FieldReader fractions("cluster", *efficiency, "device: efficiency");
    base::ReadFields(fractions, EfficiencyFields(), device.efficiency);
    if (efficiency->is_object()) ReadSources(fractions, *efficiency);
    reader.Fail(fractions.Finish());
  }
  if (json.is_object()) ReadSources(reader, json);
  // Default kind: a GPU if the device has rates in two-byte types, otherwise a CPU.
  if (reader.Find("kind") == nullptr) {
    device.kind_assumed = device.flops_per_s_bf16 == 0 && device.flops_per_s_fp16 == 0;
    device.kind = device.kind_assumed ? DeviceKind::kCpu : DeviceKind::kCuda;
  }
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  return device;
}

bool IsLocalName(const DeviceSpec& device) { return device == DeviceSpec{.name = "local"}; }

Json DeviceJson(const DeviceSpec& device) {
  if (IsLocalName(device)) return "local";
  Json json = Json::object(), rates = Json::object(), efficiency = Json::object();
  base::WriteFields(DeviceFields(), device, json);
  base::WriteFields(RateFields(), device, rates);
  base::WriteFields(EfficiencyFields(), device.efficiency, efficiency);
  json["flops_per_s"] = rates;
  if (!efficiency.empty()) json["efficiency"] = efficiency;
  return json;
}

void AddGroup(Json& json, const NodeGroup& group) {
  json["device"] = DeviceJson(group.device);
  base::WriteFields(NodeGroupFields(), group, json);
}

std::optional<std::int64_t> ParseCount(std::string_view text) {
  return base::ParseNumber<std::int64_t>(text, 1, 1'000'000);
}

// Returns one node of a preset, with its links. A preset's file is a cluster file whose device is an object.
absl::StatusOr<NodeGroup> PresetGroup(std::string_view name) {
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind != "devices" || preset.name != name) continue;
    AUTOCFG_ASSIGN_OR_RETURN(Json json, base::ParseJson("cluster", preset.json));
    AUTOCFG_ASSIGN_OR_RETURN(ClusterSpec cluster, ParseClusterJson(json));
    return std::move(cluster.groups.front());
  }
  std::vector<std::string> known = DevicePresetNames();
  known.emplace_back("local");
  return base::NotFound("cluster", fmt::format("no preset is called \"{}\"{}", base::Printable(name),
                                               base::DidYouMeanPreset(name, known)));
}

// The fastest links that exist, in bytes per second of one GPU in one direction. A cluster's figure above may
// be that of a whole node, or of both directions.
struct LinkLimit {
  std::string_view name;
  double NodeGroup::*member;
  double bytes_per_s;
  std::string_view what;
};
constexpr std::array<LinkLimit, 2> kLinkLimits = {
    // NVIDIA NVLink 5 (Blackwell data sheet, 2024): 1.8 TB/s of a GPU in both directions together.
    {{"intra_node_bytes_per_s", &NodeGroup::intra_node_bytes_per_s, 900e9, "900 GB/s, NVLink 5"},
     // NVIDIA ConnectX-8 (data sheet, 2024): 800 Gb/s, one interface for each GPU.
     {"inter_node_bytes_per_s", &NodeGroup::inter_node_bytes_per_s, 100e9, "800 Gb/s, ConnectX-8"}}};

const LinkLimit* FindLink(std::string_view name) {
  const auto* const found = std::find_if(kLinkLimits.begin(), kLinkLimits.end(),
                                         [&](const LinkLimit& link) { return link.name == name; });
  return found == kLinkLimits.end() ? nullptr : found;
}

// Returns a warning for each link of GPUs that is faster than any that exists.
std::vector<std::string> LinkWarnings(const NodeGroup& group) {
  std::vector<std::string> warnings;
  for (const LinkLimit& link : kLinkLimits) {
    const double given = group.*link.member;
    if (group.device.kind != DeviceKind::kCuda || !(given > link.bytes_per_s)) continue;
    std::string warning = fmt::format(
        "{}: {} a GPU and direction is more than the fastest known link ({}); is it the figure of a whole "
        "node, or of both directions?",
        link.name, base::QuantityText(base::Quantity::kBytesPerSecond, given), link.what);
    if (group.gpus_per_node > 1) {
      warning += fmt::format(" Of a node of {}, it is {} a GPU", group.gpus_per_node,
                             base::QuantityText(base::Quantity::kBytesPerSecond,
                                                given / static_cast<double>(group.gpus_per_node)));
    }
    warnings.push_back(std::move(warning));
  }
  return warnings;
}

// Returns how each text with a unit, at any depth, was read: "memory_bytes: 80GB is 80,000,000,000 bytes".
std::vector<std::string> UnitNotes(const Json& cluster) {
  std::vector<std::string> notes;
  if (!cluster.is_object()) return notes;
  for (const auto& [name, value] : cluster.items()) {
    for (std::string& note : UnitNotes(value)) notes.push_back(std::move(note));
    const std::optional<base::Quantity> quantity = QuantityOf(name);
    if (!quantity || !value.is_string()) continue;
    const auto& text = value.get_ref<const std::string&>();
    const auto parsed = base::ParseQuantity(*quantity, text);
    if (parsed.ok())
      notes.push_back(fmt::format("{}: {} is {}{}", name, text, base::QuantityText(*quantity, *parsed),
                                  FindLink(name) != nullptr ? " a GPU and direction" : ""));
  }
  return notes;
}

}  // namespace

absl::StatusOr<ClusterSpec> ParseClusterJson(const Json& json) {
  ClusterSpec cluster;
  NodeGroup group;
  base::FieldReader reader("cluster", json);
  if (reader.Find("groups") != nullptr)
    return base::Unimplemented("cluster", "groups is not supported yet; leave it out");
  for (const std::string_view name : {"device", "nodes"}) reader.Require(name);
  reader.String("name", cluster.name);
  reader.Bool("local", cluster.local);
  bool is_preset = false;
  if (const Json* device = reader.Find("device"); device != nullptr) {
    if (!device->is_string()) {
      absl::StatusOr<DeviceSpec> parsed = ParseDeviceJson(*device);
      reader.Fail(parsed.status());
      if (parsed.ok()) group.device = *std::move(parsed);
    } else if (device->get_ref<const std::string&>() == "local") {
      group.device.name = "local";
    } else {
      absl::StatusOr<NodeGroup> preset = PresetGroup(device->get_ref<const std::string&>());
      reader.Fail(preset.status());
      if (preset.ok()) group = *std::move(preset);
      is_preset = true;
    }
  }
  if (!is_preset) reader.Require("gpus_per_node");
  // Older files give 0 for links that a machine of one node does not have.
  base::ReadFields(reader, NodeGroupFields(), group, /*zeros=*/cluster.local);
  for (const std::string_view name : {"efficiency", "flops_per_s", "memory_bytes", "memory_bytes_per_s"}) {
    if (reader.Find(name) != nullptr)
      reader.Invalid(fmt::format("{0} is a field of the device; write it as device.{0}", name));
  }
  if (const Json* calibration = reader.Find("calibration"); calibration != nullptr) {
    absl::StatusOr<Calibration> parsed = ParseCalibrationJson(*calibration);
    reader.Fail(parsed.status());
    if (parsed.ok()) cluster.calibration = *std::move(parsed);
  }
  if (json.is_object()) ReadSources(reader, json);
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  cluster.groups.push_back(std::move(group));
  cluster.read_as = UnitNotes(json);
  for (std::string& warning : LinkWarnings(cluster.groups.back()))
    cluster.read_as.push_back(std::move(warning));
  AUTOCFG_RETURN_IF_ERROR(Validate(cluster));
  return cluster;
}

Json ClusterJson(const ClusterSpec& cluster) {
  Json json = {{"name", cluster.name}, {"local", cluster.local}};
  if (cluster.groups.size() == 1) {
    AddGroup(json, cluster.groups.front());
    if (cluster.calibration) json["calibration"] = CalibrationJson(*cluster.calibration);
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
    return base::InvalidArgument("cluster",
                                 "the name is empty; give local, a preset such as NAME:2x8, or a file");
  }
  if (colon == std::string_view::npos) return name;
  const std::string_view size = text.substr(colon + 1);
  const std::size_t cross = size.find('x');
  const std::optional<std::int64_t> nodes = ParseCount(size.substr(0, cross));
  const std::optional<std::int64_t> gpus =
      cross == std::string_view::npos ? std::nullopt : ParseCount(size.substr(cross + 1));
  if (!nodes || !gpus) {
    return base::InvalidArgument(
        "cluster",
        fmt::format("the size \"{}\" is not NODESxRANKS, two numbers from 1 to 1000000, as in {}:{}",
                    base::Printable(size), base::Printable(name.preset),
                    name.preset == "local" ? "1x8" : "2x8"));
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

absl::StatusOr<ClusterSpec> PresetCluster(std::string_view text) {
  AUTOCFG_ASSIGN_OR_RETURN(ClusterName name, ParseClusterName(text));
  AUTOCFG_ASSIGN_OR_RETURN(NodeGroup group, PresetGroup(name.preset));
  if (name.nodes > 0) {
    group.nodes = name.nodes;
    group.gpus_per_node = name.gpus_per_node;
  }
  ClusterSpec cluster{.name = fmt::format("{}:{}x{}", name.preset, group.nodes, group.gpus_per_node)};
  cluster.groups.push_back(std::move(group));
  return cluster;
}

}  // namespace autocfg
