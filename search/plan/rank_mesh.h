// Maps ranks to coordinates on every axis and back, and lists the ranks of a group. Immutable, thread-safe.
// Rank order: tensor fastest, then data, then pipeline (Narayanan et al. 2021, section 3.2).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

enum class Axis : std::uint8_t { kTensor, kData, kPipeline };
inline constexpr int kAxisCount = 3;

class RankMesh {
 public:
  explicit RankMesh(const ParallelPlan& plan);

  std::int64_t size() const;
  std::int64_t size(Axis axis) const;
  std::int64_t Coordinate(std::int64_t rank, Axis axis) const;

  // Returns the rank at the coordinates, indexed by axis. Each coordinate must be within its axis's size.
  std::int64_t RankAt(const std::array<std::int64_t, kAxisCount>& coordinates) const;

  // Returns the ranks that share all other coordinates with `rank`, in ascending order. Includes `rank`.
  std::vector<std::int64_t> Group(std::int64_t rank, std::initializer_list<Axis> axes) const;

  // Returns the ranks of `rank`'s communication group. kEmbedding: the first and the last rank of the
  // pipeline at the same tensor and data coordinates (one rank if the pipeline has one); a rank in between
  // gets only itself. kShard: data coordinates [k n, (k + 1) n) with n = StateShards, at the same other
  // coordinates; kReplica: those that are equal modulo n.
  std::vector<std::int64_t> Group(std::int64_t rank, CommGroup group) const;

 private:
  std::array<std::int64_t, kAxisCount> sizes_;
  std::int64_t shards_;  // consecutive data coordinates that share states
};

// Coordinates of one rank that runs alone, a slice of its plan. Its coordinate on the data axis is 0.
struct SliceCoordinates {
  std::int64_t tensor = 0;
  std::int64_t pipeline = 0;

  bool operator==(const SliceCoordinates&) const = default;
};

}  // namespace autocfg
