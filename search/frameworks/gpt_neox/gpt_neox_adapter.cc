#include <algorithm>

#include "search/frameworks/adapter.h"
#include "search/frameworks/gpt_neox/gpt_neox.h"
#include "search/frameworks/plan_rules.h"

namespace autocfg {
namespace {

constexpr LegalityRule kGptNeoxRules[] = {
    kSumsOfDeepSpeed,
    {kCannot, "schedule", kReads<"pp", "schedule">,
     [](const PlanCase& c) { return SplitsDepth(c.plan) && c.plan.schedule != Schedule::kOneFOneB; },
     [](const PlanCase& c) { return SaysSchedule(c, "1f1b"); }},
    {kCannot, "pipeline_shards", kReads<"pp", "zero">,
     [](const PlanCase& c) { return SplitsDepth(c.plan) && c.plan.zero_stage > 1; },
     [](const PlanCase& c) { return fmt::format("zero={} with pp (it has 0 and 1)", c.plan.zero_stage); }},
    {kCannot, "partial_shards", kReads<"zero", "dp_shard", "dp">,
     [](const PlanCase& c) { return HasPartialShards(c.plan); }, Says<"dp_shard">},
    {kCannot, "reduction", kReads<"zero", "grad_overlap">,
     [](const PlanCase& c) { return c.plan.grad_overlap && c.plan.zero_stage < 2; },
     Says<"grad_overlap=1 without zero=2 or 3">},
    {kCannot, "gathering", kReads<"zero", "param_overlap">,
     [](const PlanCase& c) { return c.plan.param_overlap && c.plan.zero_stage < 3; },
     Says<"param_overlap=1 without zero=3">},
    {kCannot, "chunks", kReads<"tp_overlap">, [](const PlanCase& c) { return c.plan.tp_overlap > 1; },
     [](const PlanCase& c) { return fmt::format("tp_overlap={}", c.plan.tp_overlap); }},
    {kCannot, "messages", kReads<"p2p_overlap">, [](const PlanCase& c) { return c.plan.p2p_overlap; },
     Says<"p2p_overlap=1">},
    {kCannot, "selective", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute == Recompute::kSelective; }, SaysRecompute},
    {kCannot, "full_layers", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute_layers > 0; }, SaysRecompute},
    {kCannot, "message_parts", kReads<"tp", "pp", "sp", "scatter_gather">,
     [](const PlanCase& c) {
       return SplitsLayers(c.plan) && SplitsDepth(c.plan) && !SplitsSequence(c.plan) &&
              !c.plan.scatter_gather;
     },
     Says<"scatter_gather=0 (its stages send in parts)">},
};

constexpr HarmlessSetting kGptNeoxHarmless[] = {
    {"checkpoint.* checkpoint_factor checkpoint_scale checkpoint_validation_with_forward_pass",
     kOfCheckpoints},
    {"activation_checkpointing.* contiguous_checkpointing synchronize_each_layer",
     "recomputation is that of checkpoint_activations"},
    {"output_layer_parallelism", "it has one value"},
    {"moe_* expert_interval", kOfMixtures},
    {"pipe_partition_method", "stages are read as equal layers"},
    {"autotuning.* autotuning_run", "it is of its own search"},
    {"deepspeed_mpi deepspeed_slurm", "it is of the launcher"},
    {"zero_optimization.stage3_*", "it is a size of buffers"},
};

constexpr UnmodelledSetting kGptNeoxUnmodelled[] = {
    {"moe_num_experts num_experts", kNoExperts},
    {"soft_prompt_tuning soft_prompt_tuning.enabled", kNoAdapters},
    {"attention_config", "layers of gMLP are not modelled", "gmlp amlp"},
    {"attention_config", kNoOtherLayers, "mamba rwkv"},
    {"attention_config", "sparse attention is not modelled", "sparse local bigbird bslongformer"},
    {"num_unique_layers", "layers that share parameters are not modelled"},
    {"zero_optimization.cpu_offload zero_optimization.offload_optimizer.device "
     "zero_optimization.offload_param.device",
     kNoHostStates},
    {"checkpoint_in_cpu", kNoHostActivations},
    {"norm", "this norm is not modelled", "scalenorm non_parametric"},
};

constexpr SayingSetting kGptNeoxSaying[] = {
    neox::kAxisSettings[0],          neox::kAxisSettings[1], {"mbs", neox::kMicroBatch},
    {"recompute", neox::kRecompute}, {"zero", neox::kStage}, {"sp", neox::kSequenceParallel},
    {"attention", neox::kAttention},
};

// Keys of older files have '-' where others have '_'.
void WithUnderscores(SettingsText& settings) {
  for (Setting& setting : settings.settings) std::ranges::replace(setting.name, '-', '_');
}

}  // namespace

constexpr FrameworkAdapter kGptNeoxAdapter = {
    .target = {kGptNeox, "YAML of gpt-neox", "neox.yml", kGptNeoxVersion,
               [](const ExportedRun&, Refusals&) {}, &WriteGptNeoxPlan},
    .exported = false,
    .rules = kGptNeoxRules,
    .read = &ReadGptNeox,
    .saying = kGptNeoxSaying,
    .harmless = kGptNeoxHarmless,
    .unmodelled = kGptNeoxUnmodelled,
    .form = SettingsForm::kYaml,
    .may_have_braces = true,
    .several_files = true,
    .normalize = &WithUnderscores,
    .recognizes =
        [](std::string_view text) {
          return text.find("pipe_parallel_size") != text.npos || text.find("pipe-parallel-size") != text.npos;
        },
    .global_batch = neox::kGlobalBatch,
};

}  // namespace autocfg
