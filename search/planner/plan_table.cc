#include "search/planner/plan_table.h"

#include "absl/hash/hash.h"

namespace autocfg {
namespace {

// The plan without the sizes that a CompactPlan holds itself.
ParallelPlan VariantOf(ParallelPlan plan) {
  plan.tp = plan.pp = plan.dp = plan.micro_batch = 1;
  return plan;
}

}  // namespace

std::size_t PlanTable::VariantHash::operator()(const ParallelPlan& plan) const {
  return absl::HashOf(plan.virtual_stages, plan.schedule, plan.split_layers, plan.recompute,
                      plan.recompute_layers, plan.attention, plan.scatter_gather, plan.sequence_parallel,
                      plan.zero_stage, plan.dp_shard, plan.tp_overlap, plan.grad_overlap, plan.param_overlap,
                      plan.p2p_overlap);
}

CompactPlan PlanTable::Pack(const ParallelPlan& plan) {
  const auto small = [](std::int64_t size) { return static_cast<std::int32_t>(size); };
  const auto [it, made] = index_.try_emplace(VariantOf(plan), static_cast<std::int32_t>(variants_.size()));
  if (made) {
    const std::vector<std::int64_t>& split = it->first.split_layers;
    variants_.push_back(&it->first);
    // A node, its places in both containers (which keep up to as many free), and the split.
    bytes_ += sizeof(*it) + 4 * sizeof(void*) + split.capacity() * sizeof(split[0]);
  }
  return {small(plan.tp), small(plan.pp), small(plan.dp), small(plan.micro_batch), it->second};
}

ParallelPlan PlanTable::Unpack(const CompactPlan& packed) const {
  ParallelPlan plan = *variants_[static_cast<std::size_t>(packed.variant)];
  plan.tp = packed.tp;
  plan.pp = packed.pp;
  plan.dp = packed.dp;
  plan.micro_batch = packed.micro_batch;
  return plan;
}

}  // namespace autocfg
