// Megatron-LM: names of its options that say something of model, workload or plan, its writer and its reader.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "search/frameworks/export_target.h"
#include "search/frameworks/megatron/core.h"

namespace autocfg {

inline constexpr std::string_view kMegatron = "megatron";
inline constexpr std::string_view kMegatronVersion = "core 0.15";

inline constexpr CoreNames kMegatronNames = {
    .layers = "--num-layers",
    .hidden = "--hidden-size",
    .ffn_hidden = "--ffn-hidden-size",
    .heads = "--num-attention-heads",
    .kv_heads = "--num-query-groups",
    .head_dim = "--kv-channels",
    .seq_len = "--seq-length",
    .max_seq_len = "--max-position-embeddings",
    .norm = "--normalization",
    .layer_norm = "LayerNorm",
    .rms_norm = "RMSNorm",
    .norm_in_any_case = true,  // forks have them in small letters
    .norm_eps = "--norm-epsilon",
    .position = "--position-embedding-type",
    .rotary_base = "--rotary-base",
    .rotary_share = "--rotary-percent",
    .rotary_factor = "--rotary-seq-len-interpolation-factor",
    .qk_norm = "--qk-layernorm",
    .vocab_multiple = "--make-vocab-size-divisible-by",
    .init_std = "--init-method-std",
    .hidden_dropout = "--hidden-dropout",
    .attention_dropout = "--attention-dropout",
    .axes = {{{"tp", "--tensor-model-parallel-size"}, {"pp", "--pipeline-model-parallel-size"}}},
    .sp = "--sequence-parallel",
    .micro_batch = "--micro-batch-size",
    .global_batch = "--global-batch-size",
    .recompute = "--recompute-granularity",
    .recompute_method = "--recompute-method",
    .recompute_layers = "--recompute-num-layers",
    .attention = "--attention-backend",
    .tp_overlap = "--tp-comm-overlap",
    .context_parallel = "--context-parallel-size",
    .expert_parallel = "--expert-model-parallel-size"};

namespace megatron {
inline constexpr std::string_view kFp8 = "--fp8-format";
inline constexpr std::string_view kFp8Hybrid = "--fp8-hybrid";
inline constexpr std::string_view kFp8Recipe = "--fp8-recipe";
inline constexpr std::string_view kFp4 = "--fp4-format";
inline constexpr std::string_view kFp4Recipe = "--fp4-recipe";
// Its recipes, and the precisions that they are.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kFp8Recipes = {
    {{"delayed", "fp8"}, {"tensorwise", "fp8"}, {"blockwise", "fp8_block"}, {"mxfp8", "mxfp8"}}};
// Logs alone say these.
inline constexpr std::string_view kWorldSize = "--world-size";
inline constexpr std::string_view kFromBridge = "--megatron-bridge";
inline constexpr std::string_view kGroupedQueries = "--group-query-attention";
inline constexpr std::string_view kSwiGlu = "--swiglu";
inline constexpr std::string_view kRopeScaling = "--use-rope-scaling";
inline constexpr std::string_view kRopeScalingFactor = "--rope-scaling-factor";
inline constexpr std::string_view kWindow = "--window-size";
inline constexpr std::string_view kWindowPattern = "--window-attn-skip-freq";
inline constexpr std::string_view kNoRopeInterval = "--no-rope-freq";
inline constexpr std::string_view kNoBiases = "--disable-bias-linear";
inline constexpr std::string_view kQkvBiases = "--add-qkv-bias";
inline constexpr std::string_view kUntied = "--untie-embeddings-and-output-weights";
inline constexpr std::string_view kVocab = "--vocab-size";
inline constexpr std::string_view kTokenizer = "--tokenizer-type";
inline constexpr std::string_view kNullTokenizer = "NullTokenizer";
inline constexpr std::string_view kDefaultTokenizer = "GPT2BPETokenizer";  // of pretrain_gpt.py
inline constexpr std::string_view kLayout = "--pipeline-model-parallel-layout";
inline constexpr std::string_view kLayersPerStage = "--num-layers-per-virtual-pipeline-stage";
inline constexpr std::string_view kPlainMessages = "--no-overlap-p2p-communication";
inline constexpr std::string_view kBf16 = "--bf16";
inline constexpr std::string_view kFp16 = "--fp16";
inline constexpr std::string_view kFsdp = "--use-megatron-fsdp";
inline constexpr std::string_view kSharding = "--data-parallel-sharding-strategy";
inline constexpr std::string_view kShardsGradients = "optim_grads";
inline constexpr std::string_view kShardsParameters = "optim_grads_params";
// Options by which a command trains. The second is for scripts that lack the first: releases before 2.0 had
// another.
inline constexpr std::string_view kMarkers[] = {kMegatronNames.micro_batch, kMegatronNames.heads};
// Options that name a file of settings.
inline constexpr std::string_view kConfigFiles[] = {"--deepspeed_config", "--deepspeed-config"};
// Types of states (megatron/training/arguments.py). Gradients are fp32 in bf16 runs, or with kNarrowGradients
// bf16; fp16 in fp16 runs, or with kWideGradients fp32. The precision-aware optimizer, a form of the
// distributed one, has types of gradients, of the master copy and of each moment.
inline constexpr std::string_view kNarrowGradients = "--grad-reduce-in-bf16";
inline constexpr std::string_view kWideGradients = "--accumulate-allreduce-grads-in-fp32";
inline constexpr std::string_view kPrecisionAware = "--use-precision-aware-optimizer";
inline constexpr std::string_view kGradientType = "--main-grads-dtype";
inline constexpr std::string_view kMasterType = "--main-params-dtype";
inline constexpr std::string_view kFirstMomentType = "--exp-avg-dtype";
inline constexpr std::string_view kSecondMomentType = "--exp-avg-sq-dtype";
inline constexpr std::string_view kOptimizer = "--optimizer";
inline constexpr std::string_view kMomentum = "--sgd-momentum";
inline constexpr std::string_view kShardsStates = "--use-distributed-optimizer";
inline constexpr std::string_view kInstances = "--num-distributed-optimizer-instances";
inline constexpr std::string_view kRecomputeModules = "--recompute-modules";
inline constexpr std::string_view kGradOverlap = "--overlap-grad-reduce";
inline constexpr std::string_view kParamOverlap = "--overlap-param-gather";

// The modules of --recompute-modules that recompute a part of a layer (megatron/core/transformer:
// transformer_config.py, transformer_layer.py). Two parts have none in the layers that we write:
//
// - norm: the module layernorm has nothing to act on in dense layers of Transformer Engine, the default,
//   whose norms belong to the projections behind them (megatron/core/models/gpt/gpt_layer_specs.py);
// - act: moe_act is the activation of experts alone.
struct RecomputeModule {
  std::string_view name;
  LayerPart part;
};
inline constexpr std::array<RecomputeModule, 2> kModules = {
    {{"core_attn", LayerPart::kCoreAttention}, {"mlp", LayerPart::kMlp}}};
// mlp runs all of the block again, which is more than the part (EngineProfile::recomputes_whole_layers). What
// it computes beyond that, for messages.
inline constexpr std::string_view kBeyondMlp = "the norm and the second projection of the block again, too";
}  // namespace megatron

// Flags of pretrain_gpt.py. Source: megatron/training/arguments.py at 000c4ac24f61.
void CheckMegatron(const ExportedRun& run, Refusals& refuse);
ExportedFile WriteMegatron(const ExportedRun& run);
// Reads ranks, sequence length and model, which its forks share.
void ReadMegatronModel(const ReadingOptions& options, SettingReader& read, RunDraft& run);
// Returns the names of the options: those of releases before 2.0 where the file has them, with a note.
CoreNames MegatronNamesIn(SettingReader& read);
// Whether layers are Megatron's own, in place of Transformer Engine's.
bool HasLocalLayers(SettingReader& read);
void ReadMegatron(const ReadingOptions& options, SettingReader& read, RunDraft& run);
// Makes options of the arguments that it, or Megatron-Bridge, prints.
void TakeMegatronLog(SettingsText& log);
// Sets the recomputation. Needs the stages.
void ReadMegatronRecompute(const CoreNames& names, SettingReader& read, RunDraft& run);

// Its fork that trains with DeepSpeed: the flags say model, batch, tp and pp, the JSON of --deepspeed_config
// ZeRO and the types. Sources: megatron/arguments.py and training.py of deepspeedai/Megatron-DeepSpeed and of
// bigscience-workshop/Megatron-DeepSpeed.
inline constexpr std::string_view kMegatronDeepSpeed = "megatron-deepspeed";
namespace megatron {
inline constexpr std::string_view kDeepSpeedFlag = "--deepspeed";
inline constexpr std::string_view kZeroStage = "--zero-stage";
}  // namespace megatron
void ReadMegatronDeepSpeed(const ReadingOptions& options, SettingReader& read, RunDraft& run);
// Writes the settings that the plan decides.
ExportedFile WriteMegatronDeepSpeedPlan(const ExportedRun& run);

// Sets the stages. Needs the layers and pp.
void ReadMegatronStages(SettingReader& read, RunDraft& run);

// Shared with Megatron-Bridge. The layout of the plan's stages: a letter a layer, a bar between stages, E
// before the first layer and L after the last.
std::string PipelineLayoutOf(const ExportedRun& run);
// Sets the stages by such a layout, and the virtual stages of a rank. Needs pp.
void ReadPipelineLayout(const Setting& layout, SettingReader& read, RunDraft& run);
// Returns whether the options can say the kinds of layers. Each interval without rotary positions must be
// whole.
bool HasCoreKinds(const ModelSpec& model);
// Returns the tokens of a window, the token itself included, if `name` says "N,0"; 0: all before it.
std::int64_t ReadCoreWindow(std::string_view name, SettingReader& read);

}  // namespace autocfg
