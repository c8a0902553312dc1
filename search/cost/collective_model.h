// How long messages and collectives take on described links, and which links a group of ranks spans. Pure
// functions, thread-safe.
#pragma once

#include <cstdint>

#include "search/ops/op_desc.h"
#include "search/plan/cluster_spec.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// How a group of ranks lies on the nodes. Ranks are numbered tensor fastest, then data, then pipeline
// (search/plan/rank_mesh.h), and fill node after node, whatever of a group a node boundary then cuts off.
struct GroupSpan {
  std::int64_t size = 1;
  std::int64_t in_node = 1;  // members that share a node, in the node that has the fewest
  std::int64_t nodes = 1;    // over which it is spread; 1: all members share one
};

// The worst placed group of that kind that the plan has: the fewest members in a node and the most nodes that
// any of them has, exact for every layout. kPipeline: two neighbours; where one boundary between stages
// leaves the node, all are taken to, though others may stay within theirs.
GroupSpan SpanOf(CommGroup group, const ParallelPlan& plan, std::int64_t gpus_per_node);

// What links carry, as reached rather than peak.
struct Links {
  double intra_bytes_per_s = 0;  // per rank and direction
  double inter_bytes_per_s = 0;
  double intra_latency_s = 0;
  double inter_latency_s = 0;
};

// Seconds of a communication op over a group that lies so, without launch.
//
// A ring moves 2(n-1)/n of the payload over the slowest link for an all-reduce and (n-1)/n for an all-gather
// (Patarasuk & Yuan 2009). Where it leaves a node, it does so over the network interfaces of all members
// there, at most as fast as the links within the node. Latency grows as for a tree: twice (all-gather: once)
// the depth, within the node and then between nodes. A message takes the link between its two ranks. Never
// less for a larger payload.
double CommunicationSeconds(const OpDesc& op, const GroupSpan& span, const Links& links);

}  // namespace autocfg
