#include "search/cost/op_times/group_span.h"

#include <algorithm>

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

}  // namespace

GroupSpan SpanOf(const OpDesc& op, const ParallelPlan& plan, std::int64_t gpus_per_node) {
  // The mesh needs only this of the model, and the op says it.
  const std::int64_t kv_replicas = op.group == CommGroup::kKvReplica ? op.group_size : 1;
  return SpanOf(op.group, RankMesh(plan, kv_replicas), gpus_per_node);
}

GroupSpan SpanOf(CommGroup group, const RankMesh& mesh, std::int64_t gpus_per_node) {
  const std::int64_t world = mesh.size();
  const auto [size, apart] = mesh.StrideOf(group);
  if (group != CommGroup::kPipeline && group != CommGroup::kEmbedding)
    return Strided(size, apart, world, gpus_per_node);
  if (size <= 1) return {};
  const bool one_node = world <= gpus_per_node;
  return {.size = 2, .in_node = one_node ? 2 : 1, .nodes = one_node ? 1 : 2};
}

}  // namespace autocfg
