// A compact store of plans, for search spaces of a million of them. Movable; not thread-safe while it grows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// A plan of a PlanTable. Equal plans of one table have equal compact plans.
struct CompactPlan {
  std::array<std::int32_t, kAxisCount> mesh = {};  // in the order of kAxes
  std::int32_t micro_batch = 1;
  std::int32_t variant = 0;  // index into the table's variants: all other options

  bool operator==(const CompactPlan&) const = default;
};

// Packs plans and unpacks them again. Each distinct combination of options other than the sizes above is
// stored once, whole, so that no option can be left out.
class PlanTable {
 public:
  PlanTable() = default;
  PlanTable(PlanTable&&) noexcept = default;
  PlanTable& operator=(PlanTable&&) noexcept = default;

  // Requires sizes below 2^31.
  CompactPlan Pack(const ParallelPlan& plan);
  std::optional<CompactPlan> Find(const ParallelPlan& plan) const;  // Pack, if that adds nothing

  ParallelPlan Unpack(const CompactPlan& plan) const;
  std::size_t variants() const { return variants_.size(); }
  // Returns a plan with the variant; its sizes are 1.
  const ParallelPlan& Variant(std::int32_t variant) const {
    return *variants_[static_cast<std::size_t>(variant)];
  }
  static std::size_t BytesOf(const ParallelPlan& variant);  // that a table keeps for it
  std::size_t Bytes() const { return bytes_; }  // the memory of the table, without the allocator's own

 private:
  // Hashes the options that differ most often; equality compares all of them.
  struct VariantHash {
    std::size_t operator()(const ParallelPlan& plan) const;
  };

  std::size_t bytes_ = 0;
  // Variants, with sizes of 1, and their indices. A variant may hold the layers of a
  // hundred thousand stages, so it is kept here alone.
  absl::node_hash_map<ParallelPlan, std::int32_t, VariantHash> index_;
  std::vector<const ParallelPlan*> variants_;  // by index; they point into `index_`
};

}  // namespace autocfg
