// The ranks of a mesh: their coordinates, and the groups that they form. Immutable, thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "search/ops/op_desc.h"
#include "search/plan/mesh.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// Returns how many ranks in a row, of those that split layers, hold the same key-value heads, each with its
// own part of the queries that read them: several where there are more ranks than key-value heads. Requires a
// legal plan.
inline std::int64_t KvReplicas(const ModelSpec& model, const ParallelPlan& plan) {
  return std::max<std::int64_t>(1, plan.tp / model.kv_heads);
}

// One axis of a mesh.
struct MeshAxis {
  Axis axis = Axis::kTensor;
  Splits splits = Splits::kLayer;
  std::int64_t size = 1;
};

class RankMesh {
 public:
  // `kv_replicas`: ranks in a row of those that split layers, which hold the same key-value heads
  // (KvReplicas).
  explicit RankMesh(const ParallelPlan& plan, std::int64_t kv_replicas = 1);
  // A mesh of these axes, each at most once, the fastest first. Ranks may have several meshes: mixtures of
  // experts have one of their own, whose axes fold over others (Liu et al. 2025, arXiv 2504.14960).
  // `shards`: must divide the product of the axes that split the batch.
  explicit RankMesh(std::span<const MeshAxis> axes, std::int64_t shards = 1);

  std::int64_t size() const;
  std::int64_t size(Axis axis) const;
  std::int64_t Coordinate(std::int64_t rank, Axis axis) const;

  // Returns the rank's position among the ranks of Group(rank, axes).
  std::int64_t Position(std::int64_t rank, AxisSet axes) const;

  // Returns the rank at these coordinates; those of other axes are 0. Each must be within its size.
  std::int64_t RankAt(std::initializer_list<std::pair<Axis, std::int64_t>> coordinates) const;

  // Returns the ranks that share all other coordinates with `rank`, in ascending order. Includes `rank`.
  std::vector<std::int64_t> Group(std::int64_t rank, AxisSet axes) const;

  // Returns the ranks of `rank`'s communication group, in ascending order. Of the ranks that split the batch,
  // kShard has n in a row, with n = StateShards, which share the states of one replica, and kReplica those n
  // apart, which hold the same states. kKvReplica has the kv_replicas in a row. kEmbedding has the first and
  // the last of the pipeline; a rank in between is alone.
  std::vector<std::int64_t> Group(std::int64_t rank, CommGroup group) const;

  // Returns the size of a group that spans the axes, and how far its members are apart. Throws
  // std::logic_error if they are not equally far apart: if an axis of several ranks lies between two of them.
  struct Stride {
    std::int64_t size = 1;
    std::int64_t apart = 1;
  };
  Stride StrideOf(AxisSet axes) const;
  // The same of a communication group.
  Stride StrideOf(CommGroup group) const;

 private:
  AxisSet AxesOf(CommGroup group) const;  // whose ranks the group is among

  absl::InlinedVector<MeshAxis, 6> axes_;
  std::int64_t kv_replicas_ = 1;
  std::int64_t shards_;  // consecutive ranks, of those that split the batch, that share states
};

// Coordinates of one rank that runs alone, a slice of its plan. Its coordinate on the data axis is 0.
struct SliceCoordinates {
  std::int64_t tensor = 0;
  std::int64_t pipeline = 0;

  bool operator==(const SliceCoordinates&) const = default;
};

}  // namespace autocfg
