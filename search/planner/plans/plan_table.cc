#include "search/planner/plans/plan_table.h"

#include <utility>

#include "absl/hash/hash.h"

namespace autocfg {
namespace {

// The plan without the sizes that a CompactPlan holds itself.
ParallelPlan VariantOf(ParallelPlan plan) {
  static_cast<MeshOptions&>(plan) = {};
  plan.micro_batch = 1;
  return plan;
}

CompactPlan Compact(const MeshOptions& mesh, std::int64_t micro_batch, std::int32_t variant) {
  CompactPlan plan{.micro_batch = static_cast<std::int32_t>(micro_batch), .variant = variant};
  for (std::size_t i = 0; i < kAxisCount; ++i) plan.mesh[i] = static_cast<std::int32_t>(mesh.*kAxes[i].size);
  return plan;
}

}  // namespace

std::size_t PlanTable::VariantHash::operator()(const ParallelPlan& plan) const {
  return absl::HashOf(plan.virtual_stages, plan.schedule, plan.split_layers, plan.recompute,
                      plan.recompute_layers, plan.attention, plan.scatter_gather, plan.sequence_parallel,
                      plan.zero_stage, plan.dp_shard, plan.tp_overlap, plan.grad_overlap, plan.param_overlap,
                      plan.p2p_overlap);
}

std::size_t PlanTable::BytesOf(const ParallelPlan& variant) {
  // A node, its places in both containers (which keep up to as many free), and the split.
  return sizeof(std::pair<const ParallelPlan, std::int32_t>) + 4 * sizeof(void*) +
         variant.split_layers.size() * sizeof(variant.split_layers[0]);
}

CompactPlan PlanTable::Pack(const ParallelPlan& plan) {
  const auto [it, made] = index_.try_emplace(VariantOf(plan), static_cast<std::int32_t>(variants_.size()));
  if (made) {
    variants_.push_back(&it->first);
    bytes_ += BytesOf(it->first);
  }
  return Compact(plan, plan.micro_batch, it->second);
}

std::optional<CompactPlan> PlanTable::Find(const ParallelPlan& plan) const {
  const auto it = index_.find(VariantOf(plan));
  if (it == index_.end()) return std::nullopt;
  return Compact(plan, plan.micro_batch, it->second);
}

ParallelPlan PlanTable::Unpack(const CompactPlan& packed) const {
  ParallelPlan plan = *variants_[static_cast<std::size_t>(packed.variant)];
  for (std::size_t i = 0; i < kAxisCount; ++i) plan.*kAxes[i].size = packed.mesh[i];
  plan.micro_batch = packed.micro_batch;
  return plan;
}

}  // namespace autocfg
