#include "search/planner/plan_table.h"

namespace autocfg {

CompactPlan PlanTable::Pack(const ParallelPlan& plan) {
  const auto small = [](std::int64_t size) { return static_cast<std::int32_t>(size); };
  CompactPlan packed;
  packed.tp = small(plan.tp);
  packed.pp = small(plan.pp);
  packed.dp = small(plan.dp);
  packed.micro_batch = small(plan.micro_batch);
  packed.virtual_stages = small(plan.virtual_stages);
  packed.recompute_layers = small(plan.recompute_layers);
  packed.schedule = plan.schedule;
  packed.recompute = plan.recompute;
  packed.attention = plan.attention;
  packed.scatter_gather = plan.scatter_gather;
  if (plan.split == SplitMode::kExplicit) {
    const auto [it, made] = index_.try_emplace(plan.split_layers, static_cast<std::int32_t>(splits_.size()));
    if (made) splits_.push_back(plan.split_layers);
    packed.split = it->second;
  }
  return packed;
}

ParallelPlan PlanTable::Unpack(const CompactPlan& packed) const {
  ParallelPlan plan;
  plan.tp = packed.tp;
  plan.pp = packed.pp;
  plan.dp = packed.dp;
  plan.micro_batch = packed.micro_batch;
  plan.virtual_stages = packed.virtual_stages;
  plan.recompute_layers = packed.recompute_layers;
  plan.schedule = packed.schedule;
  plan.recompute = packed.recompute;
  plan.attention = packed.attention;
  plan.scatter_gather = packed.scatter_gather;
  if (packed.split >= 0) {
    plan.split = SplitMode::kExplicit;
    plan.split_layers = splits_[static_cast<std::size_t>(packed.split)];
  }
  return plan;
}

}  // namespace autocfg
