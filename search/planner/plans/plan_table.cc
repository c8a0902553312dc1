#include "search/planner/plans/plan_table.h"

#include <utility>

#include "absl/hash/hash.h"

namespace autocfg {
namespace {

CompactPlan Compact(const ParallelPlan& plan, std::int32_t variant) {
  CompactPlan compact{.micro_batch = static_cast<std::int32_t>(plan.micro_batch), .variant = variant};
  for (std::size_t i = 0; i < kAxisCount; ++i)
    compact.mesh[i] = static_cast<std::int32_t>(plan.*kAxes[i].size);
  return compact;
}

}  // namespace

PlanTable::Others::Others(const ParallelPlan& plan)
    : LayerOptions(plan), MessageOptions(plan), StateOptions(plan) {
  micro_batch = 1;
}

std::size_t PlanTable::GroupHash::operator()(const StageOptions& stage) const {
  return absl::HashOf(stage.virtual_stages, stage.schedule, stage.split_layers, stage.recompute_layers);
}

std::size_t PlanTable::GroupHash::operator()(const Others& others) const {
  return absl::HashOf(others.recompute, others.recompute_parts, others.attention, others.sequence_parallel,
                      others.tp_overlap, others.p2p_overlap, others.scatter_gather, others.zero_stage,
                      others.dp_shard, others.grad_overlap, others.param_overlap);
}

template <typename T>
std::int32_t PlanTable::Intern(const T& value, std::size_t extra_bytes, Interned<T>& into) {
  const auto [it, made] = into.index.try_emplace(value, static_cast<std::int32_t>(into.values.size()));
  if (made) {
    into.values.push_back(&it->first);
    // A node, and its places in both containers, which keep up to as many free.
    bytes_ += sizeof(std::pair<const T, std::int32_t>) + 4 * sizeof(void*) + extra_bytes;
  }
  return it->second;
}

CompactPlan PlanTable::Pack(const ParallelPlan& plan) {
  const std::size_t split_bytes = plan.split_layers.size() * sizeof(plan.split_layers[0]);
  const Variant variant{Intern(plan.stage(), split_bytes, stages_), Intern(Others(plan), 0, others_)};
  const auto [it, made] = index_.try_emplace(variant, static_cast<std::int32_t>(variants_.size()));
  if (made) {
    variants_.push_back(variant);
    bytes_ += 2 * (sizeof(std::pair<const Variant, std::int32_t>) + sizeof(Variant));
  }
  return Compact(plan, it->second);
}

std::optional<std::int32_t> PlanTable::WithStates(std::int32_t variant, const StateOptions& states) const {
  Others others = OthersOf(variant);
  static_cast<StateOptions&>(others) = states;
  const auto known = others_.index.find(others);
  if (known == others_.index.end()) return std::nullopt;
  const auto found = index_.find({variants_[static_cast<std::size_t>(variant)].stage, known->second});
  return found == index_.end() ? std::nullopt : std::optional(found->second);
}

ParallelPlan PlanTable::Unpack(const CompactPlan& packed) const {
  const Variant& variant = variants_[static_cast<std::size_t>(packed.variant)];
  const Others& others = OthersOf(packed.variant);
  ParallelPlan plan({}, others, *stages_.values[static_cast<std::size_t>(variant.stage)], others, others);
  for (std::size_t i = 0; i < kAxisCount; ++i) plan.*kAxes[i].size = packed.mesh[i];
  plan.micro_batch = packed.micro_batch;
  return plan;
}

}  // namespace autocfg
