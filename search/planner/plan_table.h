// A compact store of plans, for search spaces of a million of them. Not thread-safe while it grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// A plan of a PlanTable. Equal plans of one table have equal compact plans.
struct CompactPlan {
  std::int32_t tp = 1, pp = 1, dp = 1, micro_batch = 1;
  std::int32_t variant = 0;  // index into the table's variants: all other options

  bool operator==(const CompactPlan&) const = default;
};

// Packs plans and unpacks them again. Each distinct combination of options other than the sizes above is
// stored once, whole, so that no option can be left out.
class PlanTable {
 public:
  // Requires sizes below 2^31.
  CompactPlan Pack(const ParallelPlan& plan);
  ParallelPlan Unpack(const CompactPlan& plan) const;
  std::size_t Bytes() const { return bytes_; }  // roughly the memory of the table

 private:
  // Hashes the options that differ most often; equality compares all of them.
  struct VariantHash {
    std::size_t operator()(const ParallelPlan& plan) const;
  };

  std::size_t bytes_ = 0;
  std::vector<ParallelPlan> variants_;  // with tp, pp, dp and micro_batch of 1
  absl::flat_hash_map<ParallelPlan, std::int32_t, VariantHash> index_;
};

}  // namespace autocfg
