#include "search/text/typical_figures.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

constexpr std::string_view kTypical = "a100-80gb-sxm";

enum class Figures : std::uint8_t { kAll, kLinks };

struct Needed {
  std::string_view name;
  bool needed;
};

// Sets needed fields that are unknown to the typical ones, and appends what was set.
template <typename Struct>
void Fill(std::span<const base::Field<Struct>> fields, std::initializer_list<Needed> figures,
          std::string_view prefix, const Struct& typical, Struct& to, std::vector<std::string>& assumed) {
  for (const Needed& figure : figures) {
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&](const auto& row) { return row.name == figure.name; });
    if (!figure.needed || !field->IsDefault(to)) continue;
    const base::FieldValue value = *field->Get(typical);
    field->Set(to, value);
    assumed.push_back(fmt::format("{}{} {:g}", prefix, figure.name, std::get<double>(value)));
  }
}

std::string Assume(ClusterSpec& cluster, Figures figures) {
  if (cluster.local || cluster.groups.empty()) return "";
  const NodeGroup typical = PresetCluster(kTypical).value().groups.front();
  const bool device = figures == Figures::kAll;
  std::vector<std::string> assumed;
  for (NodeGroup& group : cluster.groups) {
    const bool within = group.gpus_per_node > 1, between = group.nodes > 1;
    DeviceEfficiency& efficiency = group.device.efficiency;
    const bool gpu = device && group.device.kind == DeviceKind::kCuda;
    // matmul and matmul_k_half describe one curve.
    const bool no_matmul = device && efficiency.matmul == 0;
    Fill(EfficiencyFields(),
         {{"matmul", device},
          {"matmul_k_half", no_matmul},
          {"attention_forward", device},
          {"attention_backward", device},
          {"memory", device},
          {"intra_node", within},
          {"inter_node", between},
          {"op_overhead_s", device},
          {"overlap_contention", gpu}},
         "efficiency.", typical.device.efficiency, efficiency, assumed);
    if (gpu && !group.device.overhead_bytes) {
      group.device.overhead_bytes = std::min(*typical.device.overhead_bytes, group.device.memory_bytes);
      assumed.push_back(fmt::format("overhead_bytes {}", *group.device.overhead_bytes));
    }
    Fill(NodeGroupFields(), {{"intra_node_latency_s", within}, {"inter_node_latency_s", between}}, "",
         typical, group, assumed);
  }
  if (assumed.empty()) return "";
  return fmt::format("the cluster does not give these, so those of {} are assumed: {}", kTypical,
                     fmt::join(assumed, ", "));
}

}  // namespace

std::string AssumeTypicalFigures(ClusterSpec& cluster) { return Assume(cluster, Figures::kAll); }

std::string AssumeTypicalLinkFigures(ClusterSpec& cluster) { return Assume(cluster, Figures::kLinks); }

}  // namespace autocfg
