#include "search/plan/rank_mesh.h"

#include <algorithm>
#include <stdexcept>

namespace autocfg {

RankMesh::RankMesh(const ParallelPlan& plan, std::int64_t kv_replicas)
    : kv_replicas_(kv_replicas), shards_(StateShards(plan)) {
  for (const AxisRow& row : kAxes) axes_.push_back({row.axis, row.splits, plan.*row.size});
}

RankMesh::RankMesh(std::span<const MeshAxis> axes, std::int64_t shards)
    : axes_(axes.begin(), axes.end()), shards_(shards) {}

std::int64_t RankMesh::size() const {
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes_) product *= axis.size;
  return product;
}

std::int64_t RankMesh::size(Axis axis) const { return StrideOf(axis).size; }

std::int64_t RankMesh::Coordinate(std::int64_t rank, Axis axis) const { return Position(rank, axis); }

std::int64_t RankMesh::Position(std::int64_t rank, AxisSet axes) const {
  std::int64_t position = 0, scale = 1;
  for (const MeshAxis& axis : axes_) {
    if (axes.Holds(axis.axis)) {
      position += rank % axis.size * scale;
      scale *= axis.size;
    }
    rank /= axis.size;
  }
  return position;
}

std::int64_t RankMesh::RankAt(std::initializer_list<std::pair<Axis, std::int64_t>> coordinates) const {
  std::int64_t rank = 0, stride = 1;
  for (const MeshAxis& axis : axes_) {
    for (const auto& [of, coordinate] : coordinates) {
      if (of == axis.axis) rank += coordinate * stride;
    }
    stride *= axis.size;
  }
  return rank;
}

std::vector<std::int64_t> RankMesh::Group(std::int64_t rank, AxisSet axes) const {
  // Iterates from the slowest to the fastest axis, so that the ranks are in ascending order.
  std::vector<std::int64_t> ranks = {0};
  std::int64_t stride = size();
  for (std::size_t i = axes_.size(); i-- > 0;) {
    const MeshAxis& axis = axes_[i];
    stride /= axis.size;
    std::vector<std::int64_t> next;
    for (const std::int64_t base : ranks) {
      if (!axes.Holds(axis.axis)) {
        next.push_back(base + rank / stride % axis.size * stride);
        continue;
      }
      for (std::int64_t c = 0; c < axis.size; ++c) next.push_back(base + c * stride);
    }
    ranks = std::move(next);
  }
  return ranks;
}

AxisSet RankMesh::AxesOf(CommGroup group) const {
  const auto those_that = [this](std::initializer_list<Splits> split) {
    AxisSet axes;
    for (const MeshAxis& axis : axes_) {
      if (std::find(split.begin(), split.end(), axis.splits) != split.end()) axes = axes | axis.axis;
    }
    return axes;
  };
  switch (group) {
    case CommGroup::kNone: return {};
    case CommGroup::kTensor:
    case CommGroup::kKvReplica: return those_that({Splits::kLayer});
    case CommGroup::kData:
    case CommGroup::kShard:
    case CommGroup::kReplica: return those_that({Splits::kBatch});
    case CommGroup::kPipeline:
    case CommGroup::kEmbedding: return those_that({Splits::kDepth});
    case CommGroup::kWorld: return those_that({Splits::kLayer, Splits::kBatch, Splits::kDepth});
  }
  throw std::logic_error("a group of no known kind");
}

std::vector<std::int64_t> RankMesh::Group(std::int64_t rank, CommGroup group) const {
  const AxisSet axes = AxesOf(group);
  std::vector<std::int64_t> ranks = Group(rank, axes);
  const std::int64_t own = Position(rank, axes);
  std::int64_t next = 0;
  if (group == CommGroup::kShard || group == CommGroup::kKvReplica) {
    const std::int64_t in_a_row = group == CommGroup::kShard ? shards_ : kv_replicas_;
    std::erase_if(ranks, [&](std::int64_t) { return next++ / in_a_row != own / in_a_row; });
  } else if (group == CommGroup::kReplica) {
    std::erase_if(ranks, [&](std::int64_t) { return next++ % shards_ != own % shards_; });
  } else if (group == CommGroup::kEmbedding) {
    if (ranks.size() == 1 || (rank != ranks.front() && rank != ranks.back())) return {rank};
    return {ranks.front(), ranks.back()};
  }
  return ranks;
}

RankMesh::Stride RankMesh::StrideOf(AxisSet axes) const {
  Stride stride;
  std::int64_t next = 1;  // where the members of a further axis would have to be
  std::int64_t faster = 1;
  for (const MeshAxis& axis : axes_) {
    if (axes.Holds(axis.axis) && axis.size > 1) {
      if (stride.size == 1) stride.apart = next = faster;
      if (faster != next) throw std::logic_error("the members of a group are not equally far apart");
      stride.size *= axis.size;
      next *= axis.size;
    }
    faster *= axis.size;
  }
  return stride;
}

RankMesh::Stride RankMesh::StrideOf(CommGroup group) const {
  const auto [size, apart] = StrideOf(AxesOf(group));
  if (group == CommGroup::kShard) return {shards_, apart};
  if (group == CommGroup::kKvReplica) return {kv_replicas_, apart};
  if (group == CommGroup::kReplica) return {size / shards_, apart * shards_};
  if (group == CommGroup::kEmbedding && size > 1) return {2, (size - 1) * apart};
  return {size, apart};
}

}  // namespace autocfg
