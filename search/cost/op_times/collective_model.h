// Models the time of messages and collectives on described links, and which links a group of ranks spans.
// Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "search/ops/op_desc.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// Placement of a group of ranks on the nodes. Ranks are numbered tensor fastest, then data, then pipeline
// (search/plan/rank_mesh.h). They fill node after node, even if a node boundary divides a group.
struct GroupSpan {
  std::int64_t size = 1;
  std::int64_t in_node = 1;  // members on the same node, on the node with the fewest
  std::int64_t nodes = 1;    // nodes that the group spans; 1: all members share one
};

// Returns the span of the plan's worst placed group of that kind: the fewest members in a node and the most
// nodes of any such group, exact for every layout. kPipeline: two neighbours; if any boundary between stages
// crosses nodes, all are assumed to.
GroupSpan SpanOf(CommGroup group, const ParallelPlan& plan, std::int64_t gpus_per_node);

// Effective figures of the links, not peak figures.
struct Links {
  double intra_bytes_per_s = 0;  // per rank and direction
  double inter_bytes_per_s = 0;
  double intra_latency_s = 0;
  double inter_latency_s = 0;
  double intra_message_bytes_per_s = 0;  // of messages between stages
  double inter_message_bytes_per_s = 0;
};

// Returns the effective figures of the cluster's links; 0 for a kind of link that it does not have.
// InvalidArgument names the first missing figure: bandwidth, latency, or the fraction of the bandwidth that
// is reached, within a node of several ranks or between several nodes (search/text/typical_figures.h supplies
// defaults). Unimplemented for several node groups.
absl::StatusOr<Links> LinksOf(const ClusterSpec& cluster);

// Returns the error about a figure that a cluster of one node group lacks, with the name of its device.
absl::Status MissingFigure(const ClusterSpec& cluster, std::string_view figure,
                           std::string_view what_to_do = "give it");

// Returns the seconds of a communication op over a group with this span, without launch.
//
// A ring all-reduce moves 2(n-1)/n of the payload over the slowest link, a ring all-gather (n-1)/n (Patarasuk
// & Yuan 2009). Between nodes, a ring uses the network interfaces of all its members on a node, at most at
// the speed of the links within the node. Latency grows as for a tree: twice the depth (all-gather: once),
// within the node and then between nodes. A message takes the link between its two ranks. Never less for a
// larger payload.
double CommunicationSeconds(const OpDesc& op, const GroupSpan& span, const Links& links);

}  // namespace autocfg
