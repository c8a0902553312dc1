#include "search/cost/op_times/measured_on_links.h"

#include <utility>

#include "base/status_macros.h"

namespace autocfg {

absl::StatusOr<std::shared_ptr<const MeasuredOnLinks>> MeasuredOnLinks::Create(OpTimes measured,
                                                                               const ClusterSpec& cluster) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto links, LinksOf(cluster));
  return std::shared_ptr<const MeasuredOnLinks>(
      new MeasuredOnLinks(std::move(measured), links, cluster.groups.front().gpus_per_node));
}

double MeasuredOnLinks::Seconds(const OpDesc& op, const ParallelPlan& plan) const {
  if (!IsCommunication(op.kind)) return measured_.Seconds(op, plan);
  if (op.group_size <= 1) return 0;
  const GroupSpan span = SpanOf(op, plan, gpus_per_node_);
  if (span.nodes == 1 && measured_.MeasuredInGroup(op)) return measured_.Seconds(op);
  return CommunicationSeconds(op, span, links_);
}

}  // namespace autocfg
