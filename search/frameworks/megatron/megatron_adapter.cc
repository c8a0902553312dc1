#include <algorithm>

#include "search/frameworks/adapter.h"
#include "search/frameworks/megatron/megatron.h"

namespace autocfg {
namespace {

constexpr LayerParts kPartsOfModules = [] {
  LayerParts parts;
  for (const megatron::RecomputeModule& module : megatron::kModules) parts.Add(module.part);
  return parts;
}();

constexpr LegalityRule kMegatronRules[] = {
    kCoreSchedule,
    kCoreChunks,
    kCoreMessageParts,
    kCoreGathering,
    kCoreAttention,
    {kCannot, "fsdp_overlap", kReads<"zero", "grad_overlap", "param_overlap">,
     [](const PlanCase& c) {
       return c.plan.zero_stage >= 2 &&
              (!c.plan.grad_overlap || (c.plan.zero_stage == 3 && !c.plan.param_overlap));
     },
     [](const PlanCase& c) {
       return fmt::format("zero={} without overlap (its FSDP overlaps what it shards)", c.plan.zero_stage);
     }},
    // Its guide names tensor and expert parallelism as what FSDP goes with, its tests have no pipeline, and
    // version 2 of it refuses one (mcore_fsdp_adapter.py).
    {kCannot, "fsdp_pipeline", kReads<"zero", "pp">,
     [](const PlanCase& c) { return c.plan.zero_stage >= 2 && SplitsDepth(c.plan); },
     [](const PlanCase& c) {
       return fmt::format("zero={} with pp (its FSDP is documented without a pipeline)", c.plan.zero_stage);
     }},
    {kCannot, "fsdp_shard", kReads<"zero", "dp_shard", "dp">,
     [](const PlanCase& c) { return c.plan.zero_stage >= 2 && HasPartialShards(c.plan); },
     [](const PlanCase& c) { return fmt::format("zero={} with dp_shard", c.plan.zero_stage); }},
    {kCannot, "recompute_modules", kReads<"recompute">,
     [](const PlanCase& c) { return RecomputesOtherParts(c.plan, kPartsOfModules); },
     [](const PlanCase& c) { return SaysOtherParts(c, kPartsOfModules); }},
    kCoreMessages,
    kCorePairOfStages};

constexpr HarmlessSetting kMegatronHarmless[] = {
    {"--ckpt-* --no-ckpt-* --dist-ckpt-* --distrib-optim-fully-reshardable-mem-efficient "
     "--no-strict-fsdp-dtensor-load --non-persistent-*",
     kOfCheckpoints},
    {"--data-parallel-random-init", "it is of the initial weights"},
    {"--no-async-tensor-model-parallel-allreduce --async-tensor-model-parallel-allreduce",
     "the framework ignores it"},
    {"--no-overlap-grad-reduce --no-overlap-param-gather --no-sequence-parallel "
     "--no-recompute-activations",
     kSaysDefault},
    {"--no-scatter-gather-tensors-in-pipeline", "its core ignores it: sequence parallelism decides"},
    {"--pipeline-model-parallel-comm-backend", "it names the library that sends"},
    {"--tp-comm-overlap-* --disable-tp-comm-overlap-*", kOfTensorOverlap},
    {"--overlap-param-gather-with-optimizer-step", kOfPrefetch, /*noted=*/true},
    {"--overlap-p2p-communication-warmup-flush",
     "is left out: messages of warm-up and flush are predicted as without it", /*noted=*/true},
    {"--fsdp-double-buffer", "is left out: its second buffer is not counted", /*noted=*/true},
    {"--keep-fp8-transpose-cache-when-using-custom-fsdp", "is left out: its cache is not counted",
     /*noted=*/true},
    {"--fp8-param-gather --fp4-param --fp4-param-gather",
     "is left out: parameters are kept and gathered in two bytes, beside their copies", /*noted=*/true},
    {"--first-last-layers-bf16", "is left out: all layers are predicted in the format of most",
     /*noted=*/true},
    {"--cross-entropy-loss-fusion", "is left out: of each logit, its 4 bytes more are not counted",
     /*noted=*/true},
    {"--torch-fsdp2-*", "it says nothing without --use-torch-fsdp2, which is refused"},
    {"--hierarchical-context-parallel-sizes", kOfContext},
    {"--moe-* --expert-tensor-parallel-size --overlap-moe-expert-parallel-comm --enable-expert-bias",
     kOfMixtures},
    {"--optimizer-offload-fraction --overlap-cpu-optimizer-d2h-h2d "
     "--use-torch-optimizer-for-cpu-offload --cpu-offloading-activations --cpu-offloading-weights",
     kOfOffload},
    {"--inference-*", "it is of inference"},
    {"--rl-*", "it is of reinforcement learning, which another program does"},
    {"--eval-*", "it is of validation"},
};

// Features first: a file that is refused for one names no other reason.
constexpr UnmodelledSetting kMegatronUnmodelled[] = {
    {"--num-experts", kNoExperts},
    {"--spec", kNoExperts, "moe"},
    {"--lora* --qlora* --peft* --adapter*", kNoAdapters},
    {"--hybrid-layer-pattern --hybrid-override-pattern --hybrid-attention-ratio --hybrid-mlp-ratio "
     "--is-hybrid-model",
     kNoOtherLayers},
    {"--experimental-attention-variant --linear-attention-type --linear-attention-freq", kNoOtherLayers},
    {"--spec", kNoOtherLayers, "mamba hybrid experimental_attention"},
    {"--heterogeneous-layers-config-path --heterogeneous-layers-config-encoded-json",
     "layers that differ are not modelled"},
    {"--multi-latent-attention", "multi-latent attention is not modelled"},
    {"--mtp-num-layers", "multi-token prediction is not modelled"},
    {"--softmax-type", "a sink beside the scores of attention is not modelled", "off-by-one learnable"},
    {"--optimizer-cpu-offload", kNoHostStates},
    {"--cpu-offloading --cpu-offloading-num-layers --fine-grained-activation-offloading --offload-modules",
     kNoHostActivations},
    {"--encoder-num-layers", "encoders are not modelled"},
    {"--squared-relu", "this activation is not modelled"},
    {"--use-torch-fsdp2", "PyTorch's FSDP in Megatron is not modelled; --use-megatron-fsdp is"},
    {"--distribute-saved-activations", "inputs that are split over tensor ranks are not modelled"},
    {"--use-tp-pp-dp-mapping", "ranks in this order are not modelled"},
    {"--deepspeed", "DeepSpeed trains; give its JSON file, with --from deepspeed and --model"},
    {"--model-parallel-size", "it is of Megatron-LM before 2.0; write --tensor-model-parallel-size"},
    {"--batch-size", "it is of Megatron-LM before 2.0; write --micro-batch-size and --global-batch-size"},
    {"--checkpoint-activations", "it is an old name; write --recompute-granularity"},
    {"--use-mp-args-from-checkpoint-args", "the parallelism stands in a checkpoint; write its options"},
    {"--decoder-num-layers", "it names another model than --num-layers"},
    {"--yaml-cfg", "the options stand in another file"},
};

constexpr auto kMegatronSaying = CoreSaying(kMegatronNames, megatron::kShardsStates);

constexpr std::string_view kStageSpellings[] = {
    // The first two are what its writer says.
    megatron::kLayersPerStage,
    megatron::kLayout,
    "--num-virtual-stages-per-pipeline-rank",
    "--decoder-first-pipeline-num-layers",
    "--decoder-last-pipeline-num-layers",
    "--account-for-embedding-in-pipeline-split",
    "--account-for-loss-in-pipeline-split"};
constexpr std::string_view kRecomputeSpellings[] = {kMegatronNames.recompute, "--recompute-activations"};
constexpr std::string_view kModuleSpellings[] = {kMegatronNames.recompute, megatron::kRecomputeModules};
constexpr std::string_view kFsdpSpellings[] = {megatron::kFsdp, "--use-custom-fsdp"};
constexpr std::span<const std::string_view> kMegatronSpellings[] = {kStageSpellings, kRecomputeSpellings,
                                                                    kModuleSpellings, kFsdpSpellings};

// The second is for scripts that lack the first: releases before 2.0 had another.
constexpr std::string_view kMegatronMarkers[] = {kMegatronNames.micro_batch, kMegatronNames.heads};

}  // namespace

constexpr FrameworkAdapter kMegatronAdapter = {
    .target = {kMegatron, "flags of Megatron-LM, an option a line", "megatron.args", kMegatronVersion,
               &CheckMegatron, &WriteMegatron},
    .rules = kMegatronRules,
    .read = &ReadMegatron,
    .saying = kMegatronSaying,
    .harmless = kMegatronHarmless,
    .unmodelled = kMegatronUnmodelled,
    .form = SettingsForm::kFlags,
    .markers = kMegatronMarkers,
    .take_log = &TakeMegatronLog,
    .recognizes =
        [](std::string_view text) {
          return IsLogOfSettings(text) || std::ranges::any_of(kMegatronMarkers, [&](std::string_view marker) {
                   return text.find(marker) != text.npos;
                 });
        },
    .global_batch = kMegatronNames.global_batch,
    .spellings = kMegatronSpellings,
    .refuses_environment = megatron::kFsdp,
};

}  // namespace autocfg
