#include "search/cost/op_times/links.h"

#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg {

absl::StatusOr<Links> LinksOf(const ClusterSpec& cluster) {
  if (cluster.groups.size() != 1) {
    return base::Unimplemented(
        "cluster", fmt::format("{} node groups are not supported yet; give one", cluster.groups.size()));
  }
  const NodeGroup& group = cluster.groups.front();
  const DeviceEfficiency& efficiency = group.device.efficiency;
  struct Figure {
    std::string_view name;
    bool needed;
    bool known;
  };
  const bool within = group.gpus_per_node > 1, between = group.nodes > 1;
  for (const Figure& figure :
       {Figure{"intra_node_bytes_per_s", within, group.intra_node_bytes_per_s > 0},
        Figure{"intra_node_latency_s", within, group.intra_node_latency_s.has_value()},
        Figure{"device.efficiency.intra_node", within, efficiency.intra_node > 0},
        Figure{"inter_node_bytes_per_s", between, group.inter_node_bytes_per_s > 0},
        Figure{"inter_node_latency_s", between, group.inter_node_latency_s.has_value()},
        Figure{"device.efficiency.inter_node", between, efficiency.inter_node > 0}}) {
    if (figure.needed && !figure.known) return MissingFigure(cluster, figure.name);
  }
  const auto given_or = [](double given, double other) { return given > 0 ? given : other; };
  const EngineProfile engine = TimedEngine(cluster);
  const double intra = group.intra_node_bytes_per_s * engine.intra_node;
  const double inter = group.inter_node_bytes_per_s * engine.inter_node;
  return Links{
      .intra_bytes_per_s = intra * efficiency.intra_node,
      .inter_bytes_per_s = inter * efficiency.inter_node,
      .intra_latency_s = group.intra_node_latency_s.value_or(0),
      .inter_latency_s = group.inter_node_latency_s.value_or(0),
      .intra_message_bytes_per_s = intra * given_or(efficiency.intra_node_message, efficiency.intra_node),
      .inter_message_bytes_per_s = inter * given_or(efficiency.inter_node_message, efficiency.inter_node)};
}

absl::Status MissingFigure(const ClusterSpec& cluster, std::string_view figure, std::string_view what_to_do) {
  return ClusterError(cluster, fmt::format("{} is missing, which predictions need; {}", figure, what_to_do));
}

}  // namespace autocfg
