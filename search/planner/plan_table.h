// Plans stored compactly, for spaces of a million of them. Not thread-safe while it grows.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// A plan of a search space (search/space): the options that cannot be searched are at their defaults.
struct CompactPlan {
  std::int32_t tp = 1, pp = 1, dp = 1, micro_batch = 1, virtual_stages = 1;
  std::int32_t recompute_layers = 0;
  std::int32_t split = -1;  // -1 even, else an index into the table's splits
  Schedule schedule = Schedule::kOneFOneB;
  Recompute recompute = Recompute::kNone;
  Attention attention = Attention::kFused;
  bool scatter_gather = false;

  bool operator==(const CompactPlan&) const = default;
};

// Packs plans and unpacks them again; each distinct explicit split is kept once.
class PlanTable {
 public:
  // Requires a plan of a search space whose split is definite (not auto), with sizes below 2^31.
  CompactPlan Pack(const ParallelPlan& plan);
  ParallelPlan Unpack(const CompactPlan& plan) const;

 private:
  std::vector<std::vector<std::int64_t>> splits_;
  absl::flat_hash_map<std::vector<std::int64_t>, std::int32_t> index_;
};

}  // namespace autocfg
