#include "search/frameworks/adapter.h"
#include "search/frameworks/nemo/nemo.h"

namespace autocfg {
namespace {

constexpr LegalityRule kNemoRules[] = {
    kCoreSchedule,
    kCoreChunks,
    kCoreMessageParts,
    kCoreGathering,
    kCoreAttention,
    {kCannot, "equal_stages", kReads<"pp", "split">,
     [](const PlanCase& c) { return c.plan.pp > 1 && c.plan.split != SplitMode::kEven; },
     Says<"split (its stages are equal)">},
    {kCannot, "interleaving_in_fp32", kReads<"pp", "vpp">,
     [](const PlanCase& c) { return c.plan.pp > 1 && c.plan.virtual_stages > 1 && IsFp32(c); },
     Says<"interleaving in fp32">},
    {kCannot, "sharded_gradients", kReads<"zero">, [](const PlanCase& c) { return c.plan.zero_stage > 1; },
     [](const PlanCase& c) {
       return fmt::format("zero={} (zero=1 is its distributed Adam)", c.plan.zero_stage);
     }},
    {kCannot, "states_in_fp32", kReads<"zero">,
     [](const PlanCase& c) { return c.plan.zero_stage == 1 && IsFp32(c); }, Says<"zero=1 in fp32">},
    {kCannot, "partial_shards", kReads<"zero", "dp_shard", "dp">,
     [](const PlanCase& c) { return HasPartialShards(c.plan); }, Says<"dp_shard">},
    {kCannot, "overlapped_replicas", kReads<"zero", "grad_overlap">,
     [](const PlanCase& c) { return c.plan.grad_overlap && c.plan.zero_stage == 0; },
     Says<"grad_overlap=1 without zero=1">},
    {kCannot, "recomputed_parts", kReads<"recompute">,
     [](const PlanCase& c) { return RecomputesOtherParts(c.plan, kNemoParts); },
     [](const PlanCase& c) { return SaysOtherParts(c, kNemoParts); }},
    kCoreMessages,
    kCorePairOfStages};

constexpr HarmlessSetting kNemoHarmless[] = {
    {"exp_manager.* model.dist_ckpt_*", kOfCheckpoints},
    {"model.moe_* model.expert_tensor_parallel_size", kOfMixtures},
    {"model.fsdp_*", "it says nothing without model.fsdp, which is refused"},
    {"model.cpu_offloading_*", kOfOffload},
    {"model.ub_tp_comm_overlap_cfg model.tp_comm_overlap_*", kOfTensorOverlap},
    {"model.optim.overlap_param_gather_with_optimizer_step", kOfPrefetch, /*noted=*/true},
    {"model.validation_*", "it is of validation"},
    {"model.data.*", "it is of data"},
};

constexpr UnmodelledSetting kNemoUnmodelled[] = {
    {"model.num_moe_experts", kNoExperts},
    {"model.peft.peft_scheme", kNoAdapters},
    {"model.hybrid_override_pattern model.hybrid_attention_ratio model.hybrid_mlp_ratio model.mamba_*",
     kNoOtherLayers},
    {"model.fp4", kNoFp4},
    {"model.cpu_offloading", kNoHostActivations},
    {"model.fsdp", "PyTorch's FSDP in NeMo is not modelled"},
    {"model.use_tp_pp_dp_mapping", "ranks in this order are not modelled"},
};

constexpr auto kNemoSaying = CoreSaying(kNemoNames, nemo::kOptimizer);

}  // namespace

constexpr FrameworkAdapter kNemoAdapter = {
    .target = {kNemo, "YAML of NeMo 1.x", "nemo.yaml", kNemoVersion, &CheckNemo, &WriteNemo},
    .rules = kNemoRules,
    .read = &ReadNemo,
    .saying = kNemoSaying,
    .harmless = kNemoHarmless,
    .unmodelled = kNemoUnmodelled,
    .form = SettingsForm::kYaml,
    .recognizes =
        [](std::string_view text) {
          // A file of nanotron has a section of this name.
          return HasLineThatBegins(text, "model:") && !HasLineThatBegins(text, "parallelism:") &&
                 text.find(LastPart(kNemoNames.micro_batch)) != text.npos;
        },
    .global_batch = kNemoNames.global_batch,
    .has_padded_vocab = true,
};

}  // namespace autocfg
