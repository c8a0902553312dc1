// What Megatron-LM and Megatron-Bridge cannot express of a plan, beside the rules of their core.
#pragma once

#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/plan_rules.h"

namespace autocfg {

inline constexpr LayerParts kPartsOfModules = [] {
  LayerParts parts;
  for (const megatron::RecomputeModule& module : megatron::kModules) parts.Add(module.part);
  return parts;
}();

inline constexpr LegalityRule kFsdpOverlap = {
    kCannot, "fsdp_overlap", kReads<"zero", "grad_overlap", "param_overlap">,
    [](const PlanCase& c) {
      return c.plan.zero_stage >= 2 &&
             (!c.plan.grad_overlap || (c.plan.zero_stage == 3 && !c.plan.param_overlap));
    },
    [](const PlanCase& c) {
      return fmt::format("zero={} without overlap (its FSDP overlaps what it shards)", c.plan.zero_stage);
    }};
// The guide names tensor and expert parallelism as what FSDP goes with, its tests have no pipeline, and
// version 2 of it refuses one (mcore_fsdp_adapter.py).
inline constexpr LegalityRule kFsdpPipeline = {
    kCannot, "fsdp_pipeline", kReads<"zero", "pp">,
    [](const PlanCase& c) { return c.plan.zero_stage >= 2 && SplitsDepth(c.plan); },
    [](const PlanCase& c) {
      return fmt::format("zero={} with pp (its FSDP is documented without a pipeline)", c.plan.zero_stage);
    }};
inline constexpr LegalityRule kFsdpShard = {
    kCannot, "fsdp_shard", kReads<"zero", "dp_shard", "dp">,
    [](const PlanCase& c) { return c.plan.zero_stage >= 2 && HasPartialShards(c.plan); },
    [](const PlanCase& c) { return fmt::format("zero={} with dp_shard", c.plan.zero_stage); }};
inline constexpr LegalityRule kModulesOnly = {
    kCannot, "recompute_modules", kReads<"recompute">,
    [](const PlanCase& c) { return RecomputesOtherParts(c.plan, kPartsOfModules); },
    [](const PlanCase& c) { return SaysOtherParts(c, kPartsOfModules); }};

}  // namespace autocfg
