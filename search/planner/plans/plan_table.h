// A compact store of plans, for search spaces of a million of them. Movable; not thread-safe while it grows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
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

// Packs plans and unpacks them again. Each distinct stage group, and each distinct combination of the groups
// that are left, is stored once, whole, so that no option can be left out.
class PlanTable {
 public:
  PlanTable() = default;
  PlanTable(PlanTable&&) noexcept = default;
  PlanTable& operator=(PlanTable&&) noexcept = default;

  // Requires sizes below 2^31.
  CompactPlan Pack(const ParallelPlan& plan);
  ParallelPlan Unpack(const CompactPlan& plan) const;
  std::size_t variants() const { return variants_.size(); }
  // Returns the variant that differs in states alone, if a plan of the table has it.
  std::optional<std::int32_t> WithStates(std::int32_t variant, const StateOptions& states) const;
  // Returns whether two variants differ at most in one group: in states, or in messages.
  bool DifferInStatesAlone(std::int32_t a, std::int32_t b) const { return DifferIn<StateOptions>(a, b); }
  bool DifferInMessagesAlone(std::int32_t a, std::int32_t b) const { return DifferIn<MessageOptions>(a, b); }
  const MessageOptions& Messages(std::int32_t variant) const { return OthersOf(variant); }
  std::size_t Bytes() const { return bytes_; }  // the memory of the table, without the allocator's own

 private:
  // All options but sizes and those of StageOptions. `micro_batch` is 1.
  struct Others : LayerOptions, MessageOptions, StateOptions {
    explicit Others(const ParallelPlan& plan);
    bool operator==(const Others&) const = default;
  };
  // Places in the lists below.
  struct Variant {
    std::int32_t stage = 0, others = 0;
    bool operator==(const Variant&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Variant& variant) {
      return H::combine(std::move(h), variant.stage, variant.others);
    }
  };
  // Hash the options that differ most often; equality compares all of them.
  struct GroupHash {
    std::size_t operator()(const StageOptions& stage) const;
    std::size_t operator()(const Others& others) const;
  };
  // The places of distinct values, which are kept here alone: a split may have a hundred thousand stages.
  template <typename T>
  struct Interned {
    absl::node_hash_map<T, std::int32_t, GroupHash> index;
    std::vector<const T*> values;  // they point into `index`
  };
  const Others& OthersOf(std::int32_t variant) const {
    return *others_.values[static_cast<std::size_t>(variants_[static_cast<std::size_t>(variant)].others)];
  }
  template <typename Group>
  bool DifferIn(std::int32_t a, std::int32_t b) const {
    if (variants_[static_cast<std::size_t>(a)].stage != variants_[static_cast<std::size_t>(b)].stage)
      return false;
    Others others = OthersOf(a);
    static_cast<Group&>(others) = OthersOf(b);
    return others == OthersOf(b);
  }
  template <typename T>
  std::int32_t Intern(const T& value, std::size_t extra_bytes, Interned<T>& into);

  std::size_t bytes_ = 0;
  Interned<StageOptions> stages_;
  Interned<Others> others_;
  absl::flat_hash_map<Variant, std::int32_t> index_;
  std::vector<Variant> variants_;
};

}  // namespace autocfg
