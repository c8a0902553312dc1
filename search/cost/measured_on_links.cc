#include "search/cost/measured_on_links.h"

#include <utility>

#include "fmt/format.h"

namespace autocfg {
namespace {

double Reached(double bytes_per_s, double efficiency) {
  return efficiency > 0 ? bytes_per_s * efficiency : bytes_per_s;
}

}  // namespace

absl::Status CheckLinks(const ClusterSpec& cluster) {
  if (cluster.groups.size() != 1) {
    return absl::UnimplementedError(
        fmt::format("cluster: {} node groups are not supported yet; describe one", cluster.groups.size()));
  }
  const NodeGroup& group = cluster.groups.front();
  const auto missing = [](const char* field) {
    return absl::InvalidArgumentError(
        fmt::format("cluster: {} is missing; predictions across its ranks need it", field));
  };
  if (group.gpus_per_node > 1 && group.intra_node_bytes_per_s <= 0) return missing("intra_node_bytes_per_s");
  if (group.nodes > 1 && group.inter_node_bytes_per_s <= 0) return missing("inter_node_bytes_per_s");
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const MeasuredOnLinks>> MeasuredOnLinks::Create(OpTimes compute,
                                                                               const ClusterSpec& cluster) {
  if (absl::Status status = CheckLinks(cluster); !status.ok()) return status;
  const NodeGroup& group = cluster.groups.front();
  const DeviceEfficiency& efficiency = group.device.efficiency;
  const Links links{.intra_bytes_per_s = Reached(group.intra_node_bytes_per_s, efficiency.intra_node),
                    .inter_bytes_per_s = Reached(group.inter_node_bytes_per_s, efficiency.inter_node),
                    .intra_latency_s = group.intra_node_latency_s.value_or(0),
                    .inter_latency_s = group.inter_node_latency_s.value_or(0)};
  return std::shared_ptr<const MeasuredOnLinks>(
      new MeasuredOnLinks(std::move(compute), links, group.gpus_per_node));
}

double MeasuredOnLinks::Seconds(const OpDesc& op, const ParallelPlan& plan) const {
  if (!IsCommunication(op.kind)) return compute_.Seconds(op, plan);
  if (op.group_size <= 1) return 0;
  return CommunicationSeconds(op, SpanOf(op.group, plan, gpus_per_node_), links_);
}

}  // namespace autocfg
