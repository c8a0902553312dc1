// NeMo: names of its options that say something of model, workload or plan, its writer and its reader.
#pragma once

#include <string_view>

#include "search/frameworks/export_target.h"
#include "search/frameworks/megatron/core.h"

namespace autocfg {

inline constexpr std::string_view kNemo = "nemo";
inline constexpr std::string_view kNemoVersion = "1.23";

inline constexpr CoreNames kNemoNames = {
    .layers = "model.num_layers",
    .hidden = "model.hidden_size",
    .ffn_hidden = "model.ffn_hidden_size",
    .heads = "model.num_attention_heads",
    .kv_heads = "model.num_query_groups",
    .head_dim = "model.kv_channels",
    .seq_len = "model.encoder_seq_length",
    .max_seq_len = "model.max_position_embeddings",
    .norm = "model.normalization",
    .layer_norm = "layernorm",
    .rms_norm = "rmsnorm",
    .norm_in_any_case = true,
    .norm_eps = "model.layernorm_epsilon",
    .position = "model.position_embedding_type",
    .rotary_base = "model.rotary_base",
    .rotary_share = "model.rotary_percentage",
    .rotary_factor = "model.seq_len_interpolation_factor",
    .qk_norm = "model.qk_layernorm",
    .vocab_multiple = "model.make_vocab_size_divisible_by",
    .init_std = "model.init_method_std",
    .hidden_dropout = "model.hidden_dropout",
    .attention_dropout = "model.attention_dropout",
    .axes = {{{"tp", "model.tensor_model_parallel_size"}, {"pp", "model.pipeline_model_parallel_size"}}},
    .sp = "model.sequence_parallel",
    .micro_batch = "model.micro_batch_size",
    .global_batch = "model.global_batch_size",
    .recompute = "model.activations_checkpoint_granularity",
    .recompute_method = "model.activations_checkpoint_method",
    .recompute_layers = "model.activations_checkpoint_num_layers",
    .attention = "model.attention_backend",
    .tp_overlap = "model.ub_tp_comm_overlap",
    .context_parallel = "model.context_parallel_size",
    .expert_parallel = "model.expert_model_parallel_size",
    .selective_takes_method = true};

// What its granularity selective recomputes: it has no list of modules.
inline constexpr LayerParts kNemoParts = {LayerPart::kCoreAttention};

namespace nemo {
inline constexpr std::string_view kDevices = "trainer.devices";
inline constexpr std::string_view kNodes = "trainer.num_nodes";
inline constexpr std::string_view kPrecision = "trainer.precision";
inline constexpr std::string_view kVirtualStages = "model.virtual_pipeline_model_parallel_size";
inline constexpr std::string_view kMessageOverlap = "model.overlap_p2p_comm";
inline constexpr std::string_view kActivation = "model.activation";
inline constexpr std::string_view kOpenAiGelu = "model.openai_gelu";
inline constexpr std::string_view kFusedActivation = "model.bias_activation_fusion";
inline constexpr std::string_view kBiases = "model.bias";
inline constexpr std::string_view kQkvBiases = "model.qkv_bias";
inline constexpr std::string_view kTied = "model.share_embeddings_and_output_weights";
inline constexpr std::string_view kPaddedVocab = "model.override_vocab_size";
inline constexpr std::string_view kOptimizer = "model.optim.name";
inline constexpr std::string_view kMomentum = "model.optim.momentum";
inline constexpr std::string_view kShardingOptimizer = "distributed_fused_adam";
inline constexpr std::string_view kGradOverlap = "model.optim.overlap_grad_sync";
inline constexpr std::string_view kParamOverlap = "model.optim.overlap_param_sync";
}  // namespace nemo

// YAML of NeMo 1.x's megatron_gpt_pretraining.py; NeMo 2.x is configured in Python.
void CheckNemo(const ExportedRun& run, Refusals& refuse);
ExportedFile WriteNemo(const ExportedRun& run);
// Sets the model, but for its name.
void ReadNemoModel(const ReadingOptions& options, SettingReader& read, RunDraft& run);
void ReadNemo(const ReadingOptions& options, SettingReader& read, RunDraft& run);

}  // namespace autocfg
