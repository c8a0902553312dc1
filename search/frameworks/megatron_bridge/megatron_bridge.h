// Megatron-Bridge: names of the fields of its configuration that say something of model, workload or plan,
// the writer and the reader of its overrides.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "search/frameworks/export_target.h"
#include "search/frameworks/megatron/core.h"

namespace autocfg {

inline constexpr std::string_view kMegatronBridge = "megatron-bridge";
inline constexpr std::string_view kMegatronBridgeVersion = "0.7";

inline constexpr CoreNames kBridgeNames = {
    .layers = "model.num_layers",
    .hidden = "model.hidden_size",
    .ffn_hidden = "model.ffn_hidden_size",
    .heads = "model.num_attention_heads",
    .kv_heads = "model.num_query_groups",
    .head_dim = "model.kv_channels",
    // The data owns the length; its model has as many positions (gpt_provider.py, max_sequence_length).
    .seq_len = "dataset.seq_length",
    .max_seq_len = "model.seq_length",
    .norm = "model.normalization",
    .layer_norm = "LayerNorm",
    .rms_norm = "RMSNorm",
    .norm_in_any_case = false,
    .norm_eps = "model.layernorm_epsilon",
    .position = "model.position_embedding_type",
    .rotary_base = "model.rotary_base",
    .rotary_share = "model.rotary_percent",
    .rotary_factor = "model.seq_len_interpolation_factor",
    .qk_norm = "model.qk_layernorm",
    .vocab_multiple = "model.make_vocab_size_divisible_by",
    .init_std = "model.init_method_std",
    .hidden_dropout = "model.hidden_dropout",
    .attention_dropout = "model.attention_dropout",
    .axes = {{{"tp", "model.tensor_model_parallel_size"}, {"pp", "model.pipeline_model_parallel_size"}}},
    .sp = "model.sequence_parallel",
    .micro_batch = "train.micro_batch_size",
    .global_batch = "train.global_batch_size",
    .recompute = "model.recompute_granularity",
    .recompute_method = "model.recompute_method",
    .recompute_layers = "model.recompute_num_layers",
    .attention = "model.attention_backend",
    .tp_overlap = "model.tp_comm_overlap",
    .context_parallel = "model.context_parallel_size",
    .expert_parallel = "model.expert_model_parallel_size"};

namespace bridge {
inline constexpr std::string_view kActivation = "model.activation_func";
inline constexpr std::string_view kGated = "model.gated_linear_unit";
// Its kernel that adds the biases takes the tanh form of gelu.
inline constexpr std::string_view kFusedActivation = "model.bias_activation_fusion";
// On by default (gpt_provider.py).
inline constexpr std::string_view kFusedLoss = "model.cross_entropy_loss_fusion";
inline constexpr std::string_view kLossImplementation = "model.cross_entropy_fusion_impl";
inline constexpr std::string_view kBiases = "model.add_bias_linear";
inline constexpr std::string_view kQkvBiases = "model.add_qkv_bias";
inline constexpr std::string_view kTied = "model.share_embeddings_and_output_weights";
inline constexpr std::string_view kPaddedVocab = "model.vocab_size";  // it pads no size that is given
inline constexpr std::string_view kRopeScaling = "model.rope_scaling";
inline constexpr std::string_view kRopeScalingFactor = "model.rope_scaling_factor";
inline constexpr std::string_view kWindow = "model.window_size";
inline constexpr std::string_view kWindowPattern = "model.window_attn_skip_freq";
inline constexpr std::string_view kNoRopeInterval = "model.no_rope_freq";
inline constexpr std::string_view kVirtualStages = "model.virtual_pipeline_model_parallel_size";
inline constexpr std::string_view kLayout = "model.pipeline_model_parallel_layout";
inline constexpr std::string_view kMessageOverlap = "model.overlap_p2p_comm";
inline constexpr std::string_view kRecomputeModules = "model.recompute_modules";
inline constexpr std::string_view kPrecision = "mixed_precision";
inline constexpr std::string_view kShardsStates = "ddp.use_distributed_optimizer";
inline constexpr std::string_view kInstances = "ddp.num_distributed_optimizer_instances";
inline constexpr std::string_view kGradOverlap = "ddp.overlap_grad_reduce";
inline constexpr std::string_view kParamOverlap = "ddp.overlap_param_gather";
inline constexpr std::string_view kFsdp = "ddp.use_megatron_fsdp";
inline constexpr std::string_view kSharding = "ddp.data_parallel_sharding_strategy";
inline constexpr std::string_view kOptimizer = "optimizer.optimizer";

// Its recipes of mixed precision (megatron/bridge/training/mixed_precision.py), and what they are here. That
// of tensor scaling of the current step has layers in bf16, which are not modelled.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPrecisions = {
    {{"bf16", "bf16_mixed"},
     {"fp16:grads=fp16", "fp16_mixed"},
     {"fp8", "bf16_with_fp8_delayed_scaling_mixed"},
     {"fp8_block", "bf16_with_fp8_subchannel_scaling_mixed"},
     {"mxfp8", "bf16_with_mxfp8_mixed"},
     {"nvfp4", "bf16_with_nvfp4_mixed"}}};
}  // namespace bridge

// Overrides behind scripts/training/run_recipe.py. Source: NVIDIA-NeMo/Megatron-Bridge at 067f987df.
void CheckMegatronBridge(const ExportedRun& run, Refusals& refuse);
ExportedFile WriteMegatronBridge(const ExportedRun& run);
void ReadMegatronBridge(const ReadingOptions& options, SettingReader& read, RunDraft& run);

}  // namespace autocfg
