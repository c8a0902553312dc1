#include "search/frameworks/adapter.h"
#include "search/frameworks/maxtext/maxtext.h"
#include "search/frameworks/plan_rules.h"

namespace autocfg {
namespace {

constexpr LegalityRule kMaxTextRules[] = {
    kWholeKvHeads,
    {kCannot, "pipeline", kReads<"pp">, [](const PlanCase& c) { return SplitsDepth(c.plan); },
     Says<"pp (the schedule of its pipeline is not modelled)">},
    {kCannot, "sharded_states", kReads<"zero">,
     [](const PlanCase& c) { return c.plan.zero_stage == 1 || c.plan.zero_stage == 2; },
     [](const PlanCase& c) { return fmt::format("zero={} (it has 0 and 3)", c.plan.zero_stage); }},
    {kCannot, "reduction", kReads<"dp", "grad_overlap">,
     [](const PlanCase& c) { return BatchRanks(c.plan) > 1 && !c.plan.grad_overlap; },
     Says<"grad_overlap=0 (its compiler overlaps)">},
    {kCannot, "gathering", kReads<"dp", "zero", "param_overlap">,
     [](const PlanCase& c) {
       return BatchRanks(c.plan) > 1 && c.plan.zero_stage == 3 && !c.plan.param_overlap;
     },
     Says<"param_overlap=0 (its compiler overlaps)">},
    {kCannot, "chunks", kReads<"tp_overlap">, [](const PlanCase& c) { return c.plan.tp_overlap > 1; },
     [](const PlanCase& c) { return fmt::format("tp_overlap={}", c.plan.tp_overlap); }},
    {kCannot, "sequence", kReads<"tp", "sp">, [](const PlanCase& c) { return SplitsSequence(c.plan); },
     Says<"sp=1">},
    {kCannot, "full_layers", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute_layers > 0; }, SaysRecompute},
    {kCannot, "selective", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute == Recompute::kSelective; }, SaysRecompute},
};

constexpr HarmlessSetting kMaxTextHarmless[] = {
    {"async_checkpointing enable_checkpointing checkpoint_*", kOfCheckpoints},
    {"enable_single_controller mesh_axes logical_axis_rules data_sharding custom_mesh*",
     "it names the axes of the mesh"},
    {"num_experts_per_tok shared_experts base_moe_* sparse_matmul megablox expert_shard* moe_*", kOfMixtures},
    {"num_pipeline_* num_layers_per_pipeline_stage pipeline_* scan_pipeline_*",
     "it says nothing without a pipeline, which is refused"},
    {"remat_policy_for_vit", "it is of images"},
    {"context_parallel_* context_sharding", kOfContext},
    {"shard_mode shard_optimizer_over_data expert_shard_attention_option", "it is of how states are placed"},
    {"sharding_tolerance quantization_local_shard_count", "it is of checks, and of ranges of quantization"},
};

constexpr UnmodelledSetting kMaxTextUnmodelled[] = {
    {"num_experts", kNoExperts},
    {"model_name", kNoExperts, "mixtral deepseek gpt-oss kimi llama4 a3b a17b a22b a35b switch"},
    {"decoder_block", kNoExperts, "mixtral deepseek gpt_oss llama4 qwen3_moe"},
    {"decoder_block", kNoOtherLayers, "qwen3_next qwen3_5"},
    {"hidden_size_per_layer_input", "embeddings of each layer are not modelled"},
    {"share_kv_projections", "keys that are values, too, are not modelled"},
    {"sharding_strategy", "rules of inference are not modelled"},
    {"lora_input_adapters_path lora", kNoAdapters},
    {"optimizer_memory_host_offload parameter_memory_host_offload", kNoHostStates},
    {"remat_policy", kNoHostActivations, "offload"},
    {"use_multimodal", "images are not modelled"},
    {"use_dpo", "preferences are not modelled"},
};

constexpr SayingSetting kMaxTextSaying[] = {
    {"tp", maxtext::kTensor},
    {"mbs", maxtext::kBatch},
    {"recompute", maxtext::kRecompute},
    {"zero", maxtext::kShards},
};

}  // namespace

constexpr FrameworkAdapter kMaxTextAdapter = {
    .target = {kMaxText, "YAML of MaxText", "maxtext.yml", kMaxTextVersion,
               [](const ExportedRun&, Refusals&) {}, &WriteMaxTextPlan},
    .exported = false,
    .rules = kMaxTextRules,
    .read = &ReadMaxText,
    .saying = kMaxTextSaying,
    .harmless = kMaxTextHarmless,
    .unmodelled = kMaxTextUnmodelled,
    .form = SettingsForm::kYaml,
    .recognizes =
        [](std::string_view text) {
          return HasLineThatBegins(text, "base_emb_dim:") ||
                 (HasLineThatBegins(text, "per_device_batch_size:") &&
                  HasLineThatBegins(text, "max_target_length:"));
        },
};

}  // namespace autocfg
