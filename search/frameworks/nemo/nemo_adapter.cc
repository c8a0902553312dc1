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
    {"model.ub_tp_comm_overlap_cfg model.ub_tp_comm_overlap_cfg.* model.tp_comm_overlap_*", kOfTensorOverlap},
    {"model.optim.overlap_param_gather_with_optimizer_step", kOfPrefetch, /*noted=*/true},
    {"model.validation_*", "it is of validation"},
    {"export.*", "it is of the model that is exported"},
    {"model.data.*", "it is of data"},
    {"defaults exp_manager.* hydra.* cluster_type trainer.accelerator trainer.benchmark "
     "trainer.enable_* "
     "trainer.limit_* trainer.log_every_n_steps trainer.logger trainer.max_* trainer.use_distributed_sampler "
     "trainer.val_check_interval model.apex_transformer_log_level model.enable_megatron_timers "
     "model.megatron_timer_kwargs.* model.nsys_profile.* model.gc_interval model.onnx_safe",
     "it is of logs, and of how the program runs"},
    {"restore_from_path model.resume_from_checkpoint model.restore_*", kOfCheckpoints},
    {"model.apply_query_key_layer_scaling model.attention_type model.headscale "
     "model.normalize_attention_scores model.fp16_lm_cross_entropy model.pre_process model.post_process",
     "it changes the numbers, and not the sizes"},
    {"model.batch_p2p_comm model.sync_batch_comm model.nccl_communicator_config_path model.sharp "
     "model.grad_allreduce_chunk_size_mb model.gradient_as_bucket_view model.use_emha",
     "it is of how messages are sent"},
    {"model.bias_dropout_add_fusion model.masked_softmax_fusion "
     "model.grad_div_ar_fusion model.gradient_accumulation_fusion model.persist_layer_norm "
     "model.get_attention_mask_from_fusion model.mcore_gpt model.transformer_engine "
     "model.use_flash_attention",
     "it chooses kernels of the same layers"},
    {"model.do_layer_norm_weight_decay model.hysteresis model.native_amp_* model.optim.* "
     "trainer.gradient_clip_val",
     "it is of the update's numbers"},
    {"model.fp8_* model.reduce_amax", "it is of scales of fp8"},
    {"model.seed model.use_cpu_initialization model.use_scaled_init_method", "it is of the initial weights"},
    {"model.tokenizer.*", "it is of the tokenizer"},
    {"model.megatron_amp_O2", "states are read as those of its O2"},
};

constexpr char kNoEncoders[] = "models with an encoder are not modelled, only decoders of text";

constexpr UnmodelledSetting kNemoUnmodelled[] = {
    {"model.num_moe_experts", kNoExperts},
    {"model.peft.peft_scheme", kNoAdapters},
    {"model.hybrid_override_pattern model.hybrid_attention_ratio model.hybrid_mlp_ratio model.mamba_*",
     kNoOtherLayers},
    {"model.fp4", kNoFp4},
    {"model.fp32_residual_connection", "residuals in fp32 are not modelled"},
    {"model.encoder.* model.decoder.*", kNoEncoders},
    {"name", kNoEncoders, "megatron_t5 megatron_mt5 megatron_t0 megatron_bart megatron_ul2 megatron_bert"},
    {"model.retro.*", "layers that retrieve are not modelled"},
    {"quantization.algorithm", "training with quantized weights is not modelled"},
    {"model.ffn_dropout", "dropout within the feed-forward is not modelled"},
    {"model.activations_checkpoint_layers_per_pipeline "
     "model.num_micro_batches_with_partial_activation_checkpoints",
     "recomputation of some microbatches is not modelled"},
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
