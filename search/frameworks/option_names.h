// Names of the frameworks' options that say something of model, workload or plan. Writers and readers both
// take them from here. In files with sections, dots stand between the parts of a name.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace autocfg {

// Options that Megatron-LM and NeMo 1.x share, by the names of each.
struct CoreNames {
  std::string_view layers, hidden, ffn_hidden, heads, kv_heads, head_dim;
  std::string_view seq_len, max_seq_len;
  std::string_view norm, layer_norm, rms_norm;  // the option, and its values
  std::string_view norm_eps;
  std::string_view position, rotary_base, rotary_share;
  std::string_view qk_norm, vocab_multiple, init_std;
  std::string_view tp, pp, sp, micro_batch, global_batch;
  std::string_view recompute, recompute_method, recompute_layers;
  std::string_view attention, tp_overlap;
  std::string_view context_parallel, expert_parallel, experts;  // never written
};

inline constexpr CoreNames kMegatronNames = {.layers = "--num-layers",
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
                                             .norm_eps = "--norm-epsilon",
                                             .position = "--position-embedding-type",
                                             .rotary_base = "--rotary-base",
                                             .rotary_share = "--rotary-percent",
                                             .qk_norm = "--qk-layernorm",
                                             .vocab_multiple = "--make-vocab-size-divisible-by",
                                             .init_std = "--init-method-std",
                                             .tp = "--tensor-model-parallel-size",
                                             .pp = "--pipeline-model-parallel-size",
                                             .sp = "--sequence-parallel",
                                             .micro_batch = "--micro-batch-size",
                                             .global_batch = "--global-batch-size",
                                             .recompute = "--recompute-granularity",
                                             .recompute_method = "--recompute-method",
                                             .recompute_layers = "--recompute-num-layers",
                                             .attention = "--attention-backend",
                                             .tp_overlap = "--tp-comm-overlap",
                                             .context_parallel = "--context-parallel-size",
                                             .expert_parallel = "--expert-model-parallel-size",
                                             .experts = "--num-experts"};

inline constexpr CoreNames kNemoNames = {.layers = "model.num_layers",
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
                                         .norm_eps = "model.layernorm_epsilon",
                                         .position = "model.position_embedding_type",
                                         .rotary_base = "model.rotary_base",
                                         .rotary_share = "model.rotary_percentage",
                                         .qk_norm = "model.qk_layernorm",
                                         .vocab_multiple = "model.make_vocab_size_divisible_by",
                                         .init_std = "model.init_method_std",
                                         .tp = "model.tensor_model_parallel_size",
                                         .pp = "model.pipeline_model_parallel_size",
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
                                         .experts = "model.num_moe_experts"};

// Values that both have.
inline constexpr std::string_view kLearnedPositions = "learned_absolute";
inline constexpr std::string_view kRotaryPositions = "rope";
inline constexpr std::string_view kFullRecompute = "full";
inline constexpr std::string_view kSelectiveRecompute = "selective";
inline constexpr std::string_view kUniformRecompute = "uniform";
inline constexpr std::string_view kBlockRecompute = "block";
inline constexpr std::string_view kUnfusedAttention = "unfused";
inline constexpr std::string_view kFlashAttention = "flash";
inline constexpr std::string_view kChosenLater = "auto";  // by the framework, or by what launches it

namespace megatron {
inline constexpr std::string_view kGroupedQueries = "--group-query-attention";
inline constexpr std::string_view kSwiGlu = "--swiglu";
inline constexpr std::string_view kNoPositions = "none";
inline constexpr std::string_view kRopeScaling = "--use-rope-scaling";
inline constexpr std::string_view kNoBiases = "--disable-bias-linear";
inline constexpr std::string_view kQkvBiases = "--add-qkv-bias";
inline constexpr std::string_view kUntied = "--untie-embeddings-and-output-weights";
inline constexpr std::string_view kVocab = "--vocab-size";
inline constexpr std::string_view kTokenizer = "--tokenizer-type";
inline constexpr std::string_view kNullTokenizer = "NullTokenizer";
inline constexpr std::string_view kLayout = "--pipeline-model-parallel-layout";
inline constexpr std::string_view kLayersPerStage = "--num-layers-per-virtual-pipeline-stage";
inline constexpr std::string_view kPlainMessages = "--no-overlap-p2p-communication";
inline constexpr std::string_view kBf16 = "--bf16";
inline constexpr std::string_view kFp16 = "--fp16";
inline constexpr std::string_view kFsdp = "--use-megatron-fsdp";
inline constexpr std::string_view kSharding = "--data-parallel-sharding-strategy";
inline constexpr std::string_view kShardsGradients = "optim_grads";
inline constexpr std::string_view kShardsParameters = "optim_grads_params";
inline constexpr std::string_view kShardsStates = "--use-distributed-optimizer";
inline constexpr std::string_view kInstances = "--num-distributed-optimizer-instances";
inline constexpr std::string_view kGradOverlap = "--overlap-grad-reduce";
inline constexpr std::string_view kParamOverlap = "--overlap-param-gather";
}  // namespace megatron

namespace nemo {
inline constexpr std::string_view kDevices = "trainer.devices";
inline constexpr std::string_view kNodes = "trainer.num_nodes";
inline constexpr std::string_view kPrecision = "trainer.precision";
inline constexpr std::string_view kVirtualStages = "model.virtual_pipeline_model_parallel_size";
inline constexpr std::string_view kMessageOverlap = "model.overlap_p2p_comm";
inline constexpr std::string_view kActivation = "model.activation";
inline constexpr std::string_view kBiases = "model.bias";
inline constexpr std::string_view kQkvBiases = "model.qkv_bias";
inline constexpr std::string_view kTied = "model.share_embeddings_and_output_weights";
inline constexpr std::string_view kPaddedVocab = "model.override_vocab_size";
inline constexpr std::string_view kOptimizer = "model.optim.name";
inline constexpr std::string_view kShardingOptimizer = "distributed_fused_adam";
inline constexpr std::string_view kGradOverlap = "model.optim.overlap_grad_sync";
inline constexpr std::string_view kParamOverlap = "model.optim.overlap_param_sync";
}  // namespace nemo

namespace deepspeed {
inline constexpr std::string_view kGlobalBatch = "train_batch_size";
inline constexpr std::string_view kMicroBatch = "train_micro_batch_size_per_gpu";
inline constexpr std::string_view kMicrobatches = "gradient_accumulation_steps";
inline constexpr std::string_view kStage = "zero_optimization.stage";
inline constexpr std::string_view kGradOverlap = "zero_optimization.overlap_comm";
inline constexpr std::string_view kPrefetch = "zero_optimization.stage3_prefetch_bucket_size";
inline constexpr std::string_view kShards = "zero_optimization.mics_shard_size";
inline constexpr std::string_view kTp = "tensor_parallel.autotp_size";
inline constexpr std::string_view kTpOverlap = "tensor_parallel.tp_overlap_comm";
inline constexpr std::string_view kPp = "pipeline.stages";
inline constexpr std::string_view kRecompute = "pipeline.activation_checkpoint_interval";
}  // namespace deepspeed

namespace torchtitan {
inline constexpr std::string_view kModel = "model.name";
inline constexpr std::string_view kLlama3 = "llama3";
inline constexpr std::string_view kFlavor = "model.flavor";
// Its sizes of Llama 3, and the presets of their shapes.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kFlavors = {
    {{"8B", "llama3-8b"}, {"70B", "llama3-70b"}, {"405B", "llama3-405b"}}};
inline constexpr std::string_view kGPipe = "GPipe";
inline constexpr std::string_view kOneFOneB = "1F1B";
inline constexpr std::string_view kInterleaved = "Interleaved1F1B";
inline constexpr std::string_view kLocalBatch = "training.local_batch_size";
inline constexpr std::string_view kGlobalBatch = "training.global_batch_size";
inline constexpr std::string_view kSeqLen = "training.seq_len";
inline constexpr std::string_view kPrecision = "training.mixed_precision_param";
inline constexpr std::string_view kReplicas = "parallelism.data_parallel_replicate_degree";
inline constexpr std::string_view kShards = "parallelism.data_parallel_shard_degree";
inline constexpr std::string_view kTp = "parallelism.tensor_parallel_degree";
inline constexpr std::string_view kPp = "parallelism.pipeline_parallel_degree";
inline constexpr std::string_view kReshard = "parallelism.fsdp_reshard_after_forward";
inline constexpr std::string_view kAlways = "always";
inline constexpr std::string_view kNever = "never";
inline constexpr std::string_view kTpOverlap = "parallelism.enable_async_tensor_parallel";
inline constexpr std::string_view kSchedule = "parallelism.pipeline_parallel_schedule";
inline constexpr std::string_view kMicroBatch = "parallelism.pipeline_parallel_microbatch_size";
inline constexpr std::string_view kStages = "parallelism.module_fqns_per_model_part";
inline constexpr std::string_view kRecompute = "activation_checkpoint.mode";
inline constexpr std::string_view kNoRecompute = "none";
}  // namespace torchtitan

// Returns the part of a name after its last dot: what a line of its section has.
constexpr std::string_view LastPart(std::string_view name) { return name.substr(name.rfind('.') + 1); }

}  // namespace autocfg
