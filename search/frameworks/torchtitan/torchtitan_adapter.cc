#include "search/frameworks/adapter.h"
#include "search/frameworks/plan_rules.h"
#include "search/frameworks/torchtitan/torchtitan.h"

namespace autocfg {
namespace {

constexpr LegalityRule kTorchtitanRules[] = {
    kWholeKvHeads,
    {kCannot, "schedule", kReads<"pp", "schedule">,
     [](const PlanCase& c) { return SplitsDepth(c.plan) && c.plan.schedule == Schedule::kZeroBubbleH1; },
     [](const PlanCase& c) { return SaysSchedule(c, "gpipe, 1f1b and interleaved"); }},
    {kCannot, "sharded_states", kReads<"dp", "zero">,
     [](const PlanCase& c) { return BatchRanks(c.plan) > 1 && c.plan.zero_stage == 1; },
     Says<"zero=1 (it shards gradients too: zero=2 or 3)">},
    {kCannot, "replicas", kReads<"tp", "pp", "dp", "zero">,
     [](const PlanCase& c) {
       return BatchRanks(c.plan) > 1 && c.plan.zero_stage == 0 &&
              (SplitsLayers(c.plan) || SplitsDepth(c.plan));
     },
     Says<"zero=0 of several data ranks with tp or pp">},
    {kCannot, "one_data_rank", kReads<"tp", "pp", "dp">,
     [](const PlanCase& c) {
       return BatchRanks(c.plan) == 1 && BaseName(c.workload.precision) == "bf16" &&
              (SplitsLayers(c.plan) || SplitsDepth(c.plan));
     },
     Says<"precision=bf16 with tp or pp on one data rank (bf16 comes with its sharding)">},
    {kCannot, "reduction", kReads<"dp", "grad_overlap">,
     [](const PlanCase& c) { return BatchRanks(c.plan) > 1 && !c.plan.grad_overlap; },
     Says<"grad_overlap=0 (it always overlaps)">},
    {kCannot, "gathering", kReads<"dp", "zero", "param_overlap">,
     [](const PlanCase& c) {
       return BatchRanks(c.plan) > 1 && c.plan.zero_stage >= 2 && !c.plan.param_overlap;
     },
     Says<"param_overlap=0 (it always overlaps)">},
    {kCannot, "sequence", kReads<"tp", "sp">,
     [](const PlanCase& c) { return SplitsLayers(c.plan) && !SplitsSequence(c.plan); },
     Says<"tp without sp=1">},
    {kCannot, "tokens", kReads<"tp">,
     [](const PlanCase& c) { return SplitsLayers(c.plan) && c.workload.seq_len % (2 * c.plan.tp) != 0; },
     [](const PlanCase& c) {
       return fmt::format("a sequence of {} tokens with tp={} (it must divide by 2 tp)", c.workload.seq_len,
                          c.plan.tp);
     }},
    {kCannot, "messages", kReads<"pp", "p2p_overlap">,
     [](const PlanCase& c) { return SplitsDepth(c.plan) && !c.plan.p2p_overlap; },
     Says<"p2p_overlap=0 (its stages send in the background)">},
    {kCannot, "attention", kReads<"attention">, [](const PlanCase& c) { return IsUnfused(c.plan); },
     Says<"attention=unfused">},
    {kCannot, "selective", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute == Recompute::kSelective; },
     [](const PlanCase& c) { return SaysRecompute(c) + " (its selective mode chooses ops or layers)"; }},
    {kCannot, "full_layers", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute_layers > 0; }, SaysRecompute},
};

constexpr HarmlessSetting kTorchtitanHarmless[] = {
    {"activation_checkpoint.early_stop", "it changes only what a last layer recomputes"},
    {"activation_checkpoint.memory_budget "
     "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
     "it says nothing of the modes that can be read"},
    {"activation_checkpoint.preserve_rng_state", "it is of random numbers"},
    {"activation_checkpoint.determinism_check", "it is of checks"},
    {"activation_checkpoint.debug", "it is of logs"},
    {"parallelism.context_parallel_*", kOfContext},
    {"parallelism.enable_compiled_autograd", "it is of compilation"},
    {"parallelism.expert_* parallelism.pipeline_parallel_expert_parallel_overlap", kOfMixtures},
    {"float8.enable_fsdp_float8_all_gather quantize.linear.float8.enable_fsdp_float8_all_gather",
     "is left out: parameters are counted as gathered in their precision", /*noted=*/true},
    {"float8.precompute_float8_dynamic_scale_for_fsdp "
     "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
     "it is of scales"},
    {"fault_tolerance.*", "it says nothing unless fault_tolerance.enable, which is refused"},
    {"checkpoint.*", kOfCheckpoints},
    {"validation.*", "it is of validation"},
    {"activation_checkpoint.visualize_memory_budget_pareto job.* metrics.* profiling.* memory_estimation.* "
     "model.print_after_conversion",
     "it is of logs"},
    {"comm.*", "it is of how messages are sent"},
    {"compile.* experimental.*", "it is of compilation, and of code beside the framework's"},
    {"debug.* training.gc_*", "it is of how the program runs"},
    {"lr_scheduler.* optimizer.beta1 optimizer.beta2 optimizer.eps optimizer.lr optimizer.weight_decay "
     "optimizer.implementation training.max_norm",
     "it is of the update's numbers"},
    {"training.dataloader.* training.dataset* training.steps model.hf_assets_path model.tokenizer_path",
     "it is of data"},
    {"quantize.* float8.*", "it says nothing without a converter of its name, which is read"},
    {"parallelism.disable_loss_parallel", "is left out: logits are counted as split over tensor ranks",
     /*noted=*/true},
    {"training.mixed_precision_reduce", "it is the type in which gradients are summed"},
};

constexpr UnmodelledSetting kTorchtitanUnmodelled[] = {
    {"model.name", kNoExperts, "deepseek_v3 llama4 gpt_oss moe"},
    {"model.flavor", kNoExperts, "moe -A"},
    {"model.name", "models of images are not modelled", "flux vlm"},
    {"model.converters", kNoAdapters, "lora"},
    {"model.converters mx.recipe_name quantize.linear.mx.recipe_name", kNoFp4, "fp4"},
    {"training.enable_cpu_offload", kNoHostStates},
    {"optimizer.early_step_in_backward", "updates in the backward are not modelled"},
    {"parallelism.pipeline_parallel_schedule_csv", "this schedule is not modelled"},
    {"fault_tolerance.enable", "groups that train apart are not modelled"},
};

constexpr SayingSetting kTorchtitanSaying[] = {
    torchtitan::kAxisSettings[0],          torchtitan::kAxisSettings[1],   {"mbs", torchtitan::kLocalBatch},
    {"recompute", torchtitan::kRecompute}, {"zero", torchtitan::kReshard},
};

}  // namespace

constexpr FrameworkAdapter kTorchtitanAdapter = {
    .target = {kTorchtitan, "TOML of torchtitan, for sizes of Llama 3", "torchtitan.toml", kTorchtitanVersion,
               &CheckTorchtitan, &WriteTorchtitan},
    .rules = kTorchtitanRules,
    .read = &ReadTorchtitan,
    .saying = kTorchtitanSaying,
    .harmless = kTorchtitanHarmless,
    .unmodelled = kTorchtitanUnmodelled,
    .form = SettingsForm::kToml,
    .recognizes =
        [](std::string_view text) {
          return HasLineThatBegins(text, "[parallelism]") || HasLineThatBegins(text, "[training]");
        },
    .global_batch = torchtitan::kGlobalBatch,
    .other_ranks = torchtitan::kShards,
};

}  // namespace autocfg
