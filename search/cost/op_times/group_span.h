// Which nodes a group of ranks spans. Pure functions, thread-safe.
#pragma once

#include <cstdint>

#include "search/ops/op_desc.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/rank_mesh.h"

namespace autocfg {

// Placement of a group of ranks on the nodes. The ranks of a mesh fill node after node, in order, even if a
// node boundary divides a group.
struct GroupSpan {
  std::int64_t size = 1;
  std::int64_t in_node = 1;  // members on the same node, on the node with the fewest
  std::int64_t nodes = 1;    // nodes that the group spans; 1: all members share one
};

// Returns the span of the worst placed group of that kind of a mesh, or of an op's under a plan: the fewest
// members in a node and the most nodes of any such group, exact for every layout. kPipeline: two neighbours;
// if any boundary between stages crosses nodes, all are assumed to.
GroupSpan SpanOf(CommGroup group, const RankMesh& mesh, std::int64_t gpus_per_node);
GroupSpan SpanOf(const OpDesc& op, const ParallelPlan& plan, std::int64_t gpus_per_node);

}  // namespace autocfg
