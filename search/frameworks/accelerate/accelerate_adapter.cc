#include "search/frameworks/accelerate/accelerate.h"
#include "search/frameworks/adapter.h"
#include "search/frameworks/plan_rules.h"

namespace autocfg {
namespace {

constexpr LegalityRule kAccelerateRules[] = {
    kWholeKvHeads,
    {kCannot, "pipeline", kReads<"pp">, [](const PlanCase& c) { return SplitsDepth(c.plan); }, Says<"pp">},
    {kCannot, "tensor", kReads<"tp">, [](const PlanCase& c) { return SplitsLayers(c.plan); },
     Says<"tp with most models of transformers">},
    {kCannot, "sharded_states", kReads<"zero">, [](const PlanCase& c) { return c.plan.zero_stage == 1; },
     Says<"zero=1 (its FSDP has 2 and 3)">},
    {kCannot, "reduction", kReads<"dp", "grad_overlap">,
     [](const PlanCase& c) { return BatchRanks(c.plan) > 1 && !c.plan.grad_overlap; },
     Says<"grad_overlap=0 (it always overlaps)">},
    {kCannot, "gathering", kReads<"dp", "zero", "param_overlap">,
     [](const PlanCase& c) {
       return BatchRanks(c.plan) > 1 && c.plan.zero_stage >= 2 && !c.plan.param_overlap;
     },
     Says<"param_overlap=0 (it always overlaps)">},
    {kCannot, "selective", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute == Recompute::kSelective; }, SaysRecompute},
    {kCannot, "full_layers", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute_layers > 0; }, SaysRecompute},
};

constexpr HarmlessSetting kAccelerateHarmless[] = {
    {"fsdp_config.fsdp_auto_wrap_policy fsdp_config.fsdp_transformer_layer_cls_to_wrap "
     "fsdp_config.fsdp_min_num_params",
     "units are read as layers"},
    {"fsdp_config.fsdp_backward_prefetch fsdp_config.fsdp_backward_prefetch_policy "
     "fsdp_config.fsdp_forward_prefetch",
     "gathers are read as hidden behind computes"},
    {"fsdp_config.*", "it is of checkpoints and of the initial weights"},
    {"deepspeed_config.*", "it is of its launcher"},
    {"tpu_* tpu", "it is of TPUs"},
    {"dynamo_config.*", "it is of compilation"},
};

constexpr UnmodelledSetting kAccelerateUnmodelled[] = {
    {"distributed_type", "Megatron-LM trains; give its launch script", "MEGATRON_LM"},
    {"distributed_type", "only GPUs are modelled", "XLA TPU MULTI_CPU MULTI_XPU MULTI_NPU"},
    {"fsdp_config.fsdp_offload_params fsdp_config.offload_params", kNoHostStates},
    {"deepspeed_config.offload_optimizer_device deepspeed_config.offload_param_device", kNoHostStates},
    {"deepspeed_config.deepspeed_config_file",
     "the settings stand in another file; give that JSON file, with --from deepspeed and --model"},
    {"parallelism_config.parallelism_config_cp_size parallelism_config.parallelism_config_sp_size",
     "context parallelism is not modelled", "2 3 4 5 6 7 8 9 16"},
};

constexpr SayingSetting kAccelerateSaying[] = {
    {"zero", accelerate::kStrategy},
    {"recompute", accelerate::kRecompute},
    {"tp", accelerate::kTp},
};

}  // namespace

constexpr FrameworkAdapter kAccelerateAdapter = {
    .target = {kAccelerate, "YAML of Accelerate, without model and batch", "accelerate.yaml",
               kAccelerateVersion, [](const ExportedRun&, Refusals&) {}, &WriteAcceleratePlan},
    .exported = false,
    .rules = kAccelerateRules,
    .read = &ReadAccelerate,
    .saying = kAccelerateSaying,
    .harmless = kAccelerateHarmless,
    .unmodelled = kAccelerateUnmodelled,
    .form = SettingsForm::kYaml,
    .recognizes =
        [](std::string_view text) {
          return HasLineThatBegins(text, "distributed_type:") && !HasLineThatBegins(text, "finetuning_type:");
        },
    .script_says = [](std::string_view option,
                      const ParallelPlan&) { return option == "attention" || option == "mbs"; },
};

}  // namespace autocfg
