#include "search/cost/collective_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace autocfg {
namespace {

// `size` ranks, `stride` apart, where `world` ranks are used in all.
GroupSpan Strided(std::int64_t size, std::int64_t stride, std::int64_t world, std::int64_t gpus_per_node) {
  if (size <= 1) return {};
  const std::int64_t block = size * stride;  // groups lie in blocks of that many ranks
  if (world <= gpus_per_node || gpus_per_node % block == 0)
    return {.size = size, .in_node = size, .nodes = 1};
  // Blocks that fit a node but do not divide it: some are cut, anywhere.
  if (block <= gpus_per_node) return {.size = size, .in_node = 1, .nodes = 2};
  // Larger ones leave as many members in each node as the stride allows, and the rest in one more.
  const std::int64_t full = gpus_per_node % stride == 0 ? gpus_per_node / stride : 1;
  const std::int64_t rest = size % full;
  return {.size = size, .in_node = rest == 0 ? full : rest, .nodes = (size + full - 1) / full};
}

double Depth(std::int64_t members) {
  return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(members - 1)));  // ceil(log2)
}

}  // namespace

GroupSpan SpanOf(CommGroup group, const ParallelPlan& plan, std::int64_t gpus_per_node) {
  const std::int64_t world = RankCount(plan);
  switch (group) {
    case CommGroup::kNone: return {};
    case CommGroup::kTensor: return Strided(plan.tp, 1, world, gpus_per_node);
    case CommGroup::kData: return Strided(plan.dp, plan.tp, world, gpus_per_node);
    case CommGroup::kWorld: return Strided(world, 1, world, gpus_per_node);
    case CommGroup::kPipeline:
    case CommGroup::kEmbedding: {
      if (plan.pp <= 1) return {};
      const bool one_node = world <= gpus_per_node;
      return {.size = 2, .in_node = one_node ? 2 : 1, .nodes = one_node ? 1 : 2};
    }
  }
  return {};
}

double CommunicationSeconds(const OpDesc& op, const GroupSpan& span, const Links& links) {
  if (op.group_size <= 1 || span.size <= 1) return 0;
  const double bytes = static_cast<double>(op.dims[0]) * static_cast<double>(SizeOf(op.dtype));
  const bool leaves = span.nodes > 1;
  if (op.kind == OpKind::kSend || op.kind == OpKind::kRecv) {
    return leaves ? bytes / links.inter_bytes_per_s + links.inter_latency_s
                  : bytes / links.intra_bytes_per_s + links.intra_latency_s;
  }
  double bandwidth =
      leaves ? static_cast<double>(span.in_node) * links.inter_bytes_per_s : links.intra_bytes_per_s;
  if (leaves && span.in_node > 1) bandwidth = std::min(bandwidth, links.intra_bytes_per_s);
  const double rounds = op.kind == OpKind::kAllGather ? 1 : 2;
  const double share = static_cast<double>(span.size - 1) / static_cast<double>(span.size);
  const double latency =
      Depth(span.in_node) * links.intra_latency_s + (leaves ? Depth(span.nodes) * links.inter_latency_s : 0);
  return rounds * (share * bytes / bandwidth + latency);
}

}  // namespace autocfg
