#include "search/cost/op_times/collective_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/subject.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

// Smallest distances between boundaries of rank blocks and boundaries of nodes: over the first `boundaries`
// multiples of `block`, the least distance above and below a multiple of `node`, excluding multiples that
// coincide.
struct Distances {
  std::int64_t above, below;
};

// Requires that `node` does not divide `block`. Each multiple nearer than all before it, from above or below,
// is the sum of the two nearest so far (Slater 1967). They are found as in Euclid's algorithm.
Distances NearestToNode(std::int64_t block, std::int64_t boundaries, std::int64_t node) {
  std::int64_t above = block % node, below = node - above;
  std::int64_t above_at = 1, below_at = 1;  // the indices of those multiples
  while (above != below && above_at + below_at <= boundaries) {
    if (above > below) {
      const std::int64_t times = std::min((boundaries - above_at) / below_at, (above - 1) / below);
      above -= times * below;
      above_at += times * below_at;
    } else {
      const std::int64_t times = std::min((boundaries - below_at) / above_at, (below - 1) / above);
      below -= times * above;
      below_at += times * above_at;
    }
  }
  return {above, below};
}

// Returns the span of groups of `size` ranks, `stride` apart, of `world` used ranks in total. Each contiguous
// block of ranks holds `stride` interleaved groups; the blocks follow each other.
GroupSpan Strided(std::int64_t size, std::int64_t stride, std::int64_t world, std::int64_t gpus_per_node) {
  if (size <= 1) return {};
  const std::int64_t block = size * stride;
  if (world <= gpus_per_node || gpus_per_node % block == 0)
    return {.size = size, .in_node = size, .nodes = 1};
  // The smallest piece of a block on one node, and the largest offset of a block within a node.
  std::int64_t piece = std::min(block, gpus_per_node), begin = 0;
  if (world % gpus_per_node != 0) piece = std::min(piece, world % gpus_per_node);
  if (block % gpus_per_node != 0 && world > block) {
    const Distances nearest = NearestToNode(block, world / block - 1, gpus_per_node);
    piece = std::min({piece, nearest.above, nearest.below});
    begin = gpus_per_node - nearest.below;
  }
  // The group with the fewest members in a piece has one per whole stride of the piece. A piece shorter than
  // a stride, in which not all groups have members, counts as one. Members at least a node apart each have a
  // node of their own.
  // The latest position of the first member.
  const std::int64_t first = std::min(begin + stride, gpus_per_node) - 1;
  const std::int64_t nodes =
      stride >= gpus_per_node ? size : (first + (size - 1) * stride) / gpus_per_node + 1;
  return {.size = size, .in_node = std::max<std::int64_t>(1, piece / stride), .nodes = nodes};
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
    case CommGroup::kShard: return Strided(StateShards(plan), plan.tp, world, gpus_per_node);
    case CommGroup::kReplica:
      return Strided(StateReplicas(plan), plan.tp * StateShards(plan), world, gpus_per_node);
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
  const double intra = group.intra_node_bytes_per_s * cluster.engine.intra_node;
  const double inter = group.inter_node_bytes_per_s * cluster.engine.inter_node;
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

double CommunicationSeconds(const OpDesc& op, const GroupSpan& span, const Links& links) {
  if (op.group_size <= 1 || span.size <= 1) return 0;
  const double bytes = static_cast<double>(op.dims[0]) * static_cast<double>(SizeOf(op.dtype));
  const bool leaves = span.nodes > 1;
  double bandwidth =
      leaves ? static_cast<double>(span.in_node) * links.inter_bytes_per_s : links.intra_bytes_per_s;
  if (leaves && span.in_node > 1) bandwidth = std::min(bandwidth, links.intra_bytes_per_s);
  const double share = static_cast<double>(span.size - 1) / static_cast<double>(span.size);
  const double latency =
      Depth(span.in_node) * links.intra_latency_s + (leaves ? Depth(span.nodes) * links.inter_latency_s : 0);
  const double round = share * bytes / bandwidth + latency;
  switch (PatternOf(op.kind)) {
    case CommPattern::kNone: return 0;
    case CommPattern::kMessage:
      return leaves ? bytes / links.inter_message_bytes_per_s + links.inter_latency_s
                    : bytes / links.intra_message_bytes_per_s + links.intra_latency_s;
    case CommPattern::kAllReduce: return 2 * round;
    case CommPattern::kReduceScatter:
    case CommPattern::kAllGather: return round;
  }
  return 0;
}

}  // namespace autocfg
