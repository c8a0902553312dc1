#include "search/text/typical_figures.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/text/cluster_json.h"

namespace autocfg {
namespace {

constexpr std::string_view kTypical = "a100-80gb-sxm";

enum class Figures : std::uint8_t { kAll, kLinks };

struct Share {
  std::string_view name;
  double DeviceEfficiency::*member;
  bool needed;
};

std::string Assume(ClusterSpec& cluster, Figures figures) {
  if (cluster.local || cluster.groups.empty()) return "";
  const NodeGroup typical = PresetCluster(kTypical).value().groups.front();
  const bool device = figures == Figures::kAll;
  std::vector<std::string> assumed;
  for (NodeGroup& group : cluster.groups) {
    const bool within = group.gpus_per_node > 1, between = group.nodes > 1;
    DeviceEfficiency& efficiency = group.device.efficiency;
    for (const Share& share :
         {Share{"efficiency.matmul", &DeviceEfficiency::matmul, device},
          Share{"efficiency.attention_forward", &DeviceEfficiency::attention_forward, device},
          Share{"efficiency.attention_backward", &DeviceEfficiency::attention_backward, device},
          Share{"efficiency.memory", &DeviceEfficiency::memory, device},
          Share{"efficiency.intra_node", &DeviceEfficiency::intra_node, within},
          Share{"efficiency.inter_node", &DeviceEfficiency::inter_node, between}}) {
      double& value = efficiency.*share.member;
      if (!share.needed || value > 0) continue;
      value = typical.device.efficiency.*share.member;
      assumed.push_back(fmt::format("{} {:g}", share.name, value));
      // Both parameters describe one curve.
      if (share.member == &DeviceEfficiency::matmul && efficiency.matmul_k_half == 0) {
        efficiency.matmul_k_half = typical.device.efficiency.matmul_k_half;
        assumed.push_back(fmt::format("efficiency.matmul_k_half {:g}", efficiency.matmul_k_half));
      }
    }
    if (device && group.device.kind == DeviceKind::kCuda && !group.device.overhead_bytes) {
      group.device.overhead_bytes = std::min(*typical.device.overhead_bytes, group.device.memory_bytes);
      assumed.push_back(fmt::format("overhead_bytes {}", *group.device.overhead_bytes));
    }
    struct Known {
      std::string_view name;
      std::optional<double>& value;
      std::optional<double> typical;
      bool needed;
    };
    for (const Known& figure :
         {Known{"efficiency.op_overhead_s", efficiency.op_overhead_s, typical.device.efficiency.op_overhead_s,
                device},
          Known{"efficiency.overlap_contention", efficiency.overlap_contention,
                typical.device.efficiency.overlap_contention,
                device && group.device.kind == DeviceKind::kCuda},
          Known{"intra_node_latency_s", group.intra_node_latency_s, typical.intra_node_latency_s, within},
          Known{"inter_node_latency_s", group.inter_node_latency_s, typical.inter_node_latency_s, between}}) {
      if (!figure.needed || figure.value) continue;
      figure.value = figure.typical;
      assumed.push_back(fmt::format("{} {:g}", figure.name, *figure.value));
    }
  }
  if (assumed.empty()) return "";
  return fmt::format("the cluster does not give these, so those of {} are assumed: {}", kTypical,
                     fmt::join(assumed, ", "));
}

}  // namespace

std::string AssumeTypicalFigures(ClusterSpec& cluster) { return Assume(cluster, Figures::kAll); }

std::string AssumeTypicalLinkFigures(ClusterSpec& cluster) { return Assume(cluster, Figures::kLinks); }

}  // namespace autocfg
