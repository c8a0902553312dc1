// Which rank stands where: rank <-> coordinate on every axis, and the ranks of a group. Immutable,
// thread-safe. Order of ranks: tensor fastest, then data, then pipeline (Narayanan et al. 2021, section 3.2).
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

  // The rank at the coordinates, by axis, each within its size.
  std::int64_t RankAt(const std::array<std::int64_t, kAxisCount>& coordinates) const;

  // The ranks that agree with `rank` on every axis not named, in ascending order. Contains `rank`.
  std::vector<std::int64_t> Group(std::int64_t rank, std::initializer_list<Axis> axes) const;

  // The ranks of a communication group that `rank` belongs to. kEmbedding: the first and the last rank of the
  // pipeline at the same tensor and data coordinates (one rank where the pipeline has one); a rank between
  // them gets itself alone.
  std::vector<std::int64_t> Group(std::int64_t rank, CommGroup group) const;

 private:
  std::array<std::int64_t, kAxisCount> sizes_;
};

}  // namespace autocfg
