#include "search/plan/rank_mesh.h"

#include <algorithm>

namespace autocfg {

RankMesh::RankMesh(const ParallelPlan& plan)
    : sizes_{plan.tp, plan.dp, plan.pp}, shards_(StateShards(plan)) {}

std::int64_t RankMesh::size() const {
  std::int64_t product = 1;
  for (std::int64_t size : sizes_) product *= size;
  return product;
}

std::int64_t RankMesh::size(Axis axis) const { return sizes_[static_cast<std::size_t>(axis)]; }

std::int64_t RankMesh::Coordinate(std::int64_t rank, Axis axis) const {
  for (int i = 0; i < static_cast<int>(axis); ++i) rank /= sizes_[static_cast<std::size_t>(i)];
  return rank % size(axis);
}

std::int64_t RankMesh::RankAt(const std::array<std::int64_t, kAxisCount>& coordinates) const {
  std::int64_t rank = 0;
  for (std::size_t i = sizes_.size(); i-- > 0;) rank = rank * sizes_[i] + coordinates[i];
  return rank;
}

std::vector<std::int64_t> RankMesh::Group(std::int64_t rank, std::initializer_list<Axis> axes) const {
  // Iterates from the slowest to the fastest axis, so that the ranks are in ascending order.
  std::vector<std::int64_t> ranks = {0};
  std::int64_t stride = size();
  for (int i = kAxisCount - 1; i >= 0; --i) {
    const Axis axis = static_cast<Axis>(i);
    stride /= size(axis);
    const bool spans = std::find(axes.begin(), axes.end(), axis) != axes.end();
    std::vector<std::int64_t> next;
    for (std::int64_t base : ranks) {
      if (!spans) {
        next.push_back(base + Coordinate(rank, axis) * stride);
        continue;
      }
      for (std::int64_t c = 0; c < size(axis); ++c) next.push_back(base + c * stride);
    }
    ranks = std::move(next);
  }
  return ranks;
}

std::vector<std::int64_t> RankMesh::Group(std::int64_t rank, CommGroup group) const {
  switch (group) {
    case CommGroup::kNone: return {rank};
    case CommGroup::kTensor: return Group(rank, {Axis::kTensor});
    case CommGroup::kData: return Group(rank, {Axis::kData});
    case CommGroup::kPipeline: return Group(rank, {Axis::kPipeline});
    case CommGroup::kShard:
    case CommGroup::kReplica: {
      const std::int64_t own = Coordinate(rank, Axis::kData);
      std::vector<std::int64_t> ranks = Group(rank, {Axis::kData});
      std::int64_t other = 0;
      std::erase_if(ranks, [&](std::int64_t) {
        const std::int64_t data = other++;
        return group == CommGroup::kShard ? data / shards_ != own / shards_ : data % shards_ != own % shards_;
      });
      return ranks;
    }
    case CommGroup::kWorld: return Group(rank, {Axis::kTensor, Axis::kData, Axis::kPipeline});
    case CommGroup::kEmbedding: {
      const std::vector<std::int64_t> stages = Group(rank, {Axis::kPipeline});
      if (stages.size() == 1 || (rank != stages.front() && rank != stages.back())) return {rank};
      return {stages.front(), stages.back()};
    }
  }
  return {rank};
}

}  // namespace autocfg
