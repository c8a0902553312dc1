#include "search/cost/op_times/measured_on_links.h"

#include <optional>
#include <utility>

#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

// The cluster's description of one kind of link.
struct LinkFigures {
  const char* bytes_per_s_name;
  double bytes_per_s;
  const char* latency_name;
  std::optional<double> latency_s;
  const char* efficiency_name;
  double efficiency;
};

absl::Status Missing(const char* field) {
  return base::InvalidArgument("cluster",
                               fmt::format("{} is missing; predictions across its ranks need it", field));
}

absl::Status CheckAllThere(const LinkFigures& link) {
  if (link.bytes_per_s <= 0) return Missing(link.bytes_per_s_name);
  if (!link.latency_s) return Missing(link.latency_name);
  if (link.efficiency <= 0) return Missing(link.efficiency_name);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLinks(const ClusterSpec& cluster) {
  if (cluster.groups.size() != 1) {
    return base::Unimplemented(
        "cluster", fmt::format("{} node groups are not supported yet; describe one", cluster.groups.size()));
  }
  const NodeGroup& group = cluster.groups.front();
  const DeviceEfficiency& efficiency = group.device.efficiency;
  if (group.gpus_per_node > 1) {
    absl::Status within =
        CheckAllThere({"intra_node_bytes_per_s", group.intra_node_bytes_per_s, "intra_node_latency_s",
                       group.intra_node_latency_s, "efficiency.intra_node", efficiency.intra_node});
    if (!within.ok()) return within;
  }
  if (group.nodes == 1) return absl::OkStatus();
  return CheckAllThere({"inter_node_bytes_per_s", group.inter_node_bytes_per_s, "inter_node_latency_s",
                        group.inter_node_latency_s, "efficiency.inter_node", efficiency.inter_node});
}

absl::StatusOr<std::shared_ptr<const MeasuredOnLinks>> MeasuredOnLinks::Create(OpTimes compute,
                                                                               const ClusterSpec& cluster) {
  if (absl::Status status = CheckLinks(cluster); !status.ok()) return status;
  const NodeGroup& group = cluster.groups.front();
  const DeviceEfficiency& efficiency = group.device.efficiency;
  // Figures of a kind of link that the cluster does not have are not used.
  const Links links{.intra_bytes_per_s = group.intra_node_bytes_per_s * efficiency.intra_node,
                    .inter_bytes_per_s = group.inter_node_bytes_per_s * efficiency.inter_node,
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
