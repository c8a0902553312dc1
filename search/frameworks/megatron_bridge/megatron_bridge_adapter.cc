#include "search/frameworks/adapter.h"
#include "search/frameworks/megatron/megatron_rules.h"
#include "search/frameworks/megatron_bridge/megatron_bridge.h"

namespace autocfg {
namespace {

// Its backend of attention is an enumerator, which no override sets (omegaconf_utils.py, _apply_overrides).
constexpr LegalityRule kFusedAttentionOnly = {
    kCannot, "fused_attention", kReads<"attention">, [](const PlanCase& c) { return IsUnfused(c.plan); },
    Says<"attention=unfused (no override chooses the kernel, and the default is fused)">};

constexpr LegalityRule kMegatronBridgeRules[] = {
    kCoreSchedule, kCoreChunks, kCoreMessageParts, kCoreGathering, kFusedAttentionOnly, kFsdpOverlap,
    kFsdpPipeline, kFsdpShard,  kModulesOnly,      kCoreMessages,  kCorePairOfStages};

constexpr HarmlessSetting kMegatronBridgeHarmless[] = {
    {"checkpoint.*", kOfCheckpoints},
    {"dataset.* tokenizer.* validation.*", "it is of data"},
    {"logger.* profiling.* profiler.* env_vars.* ft.* straggler.* nvrx_straggler.* tensor_inspect.* "
     "inprocess_restart.* rerun_state_machine.*",
     "it is of logs, and of how the program runs"},
    {"scheduler.* optimizer.lr optimizer.min_lr optimizer.adam_* optimizer.weight_decay optimizer.clip_grad "
     "optimizer.decoupled_*",
     "it is of the update's numbers"},
    {"rng.*", "it is of the initial weights"},
    {"train.train_iters train.train_samples train.exit_* train.manual_gc train.manual_gc_* train.skip_train "
     "train.num_epochs",
     "it says how long the program runs"},
    {"comm_overlap", "it says null: the overlaps are said one by one"},
    {"model.batch_p2p_comm", "it is of how messages are sent"},
    {"model.gradient_accumulation_fusion model.apply_rope_fusion model.masked_softmax_fusion "
     "model.bias_dropout_fusion",
     "it chooses kernels of the same layers"},
    {"model.tp_comm_overlap_* model.tp_comm_bulk_* model.tp_comm_split_*", kOfTensorOverlap},
    {"model.moe_* model.expert_tensor_parallel_size", kOfMixtures},
    {"dist.distributed_timeout_minutes ddp.check_for_nan_in_grad ddp.bucket_size", "it changes no sizes"},
};

constexpr UnmodelledSetting kMegatronBridgeUnmodelled[] = {
    {"model.num_moe_experts", kNoExperts},
    {"peft peft.*", kNoAdapters},
    {"model.hybrid_* model.mamba_* model.multi_latent_attention", kNoOtherLayers},
    {"model.cpu_offloading model.fine_grained_activation_offloading", kNoHostActivations},
    {"optimizer.optimizer_cpu_offload", kNoHostStates},
    {"model.fp32_residual_connection", "residuals in fp32 are not modelled"},
    {"model.mtp_num_layers", "prediction of several tokens is not modelled"},
    {"optimizer.use_precision_aware_optimizer", "narrow states by override are not modelled"},
    {"dist.use_torch_fsdp2", "PyTorch's FSDP in Megatron-Bridge is not modelled"},
    {"dist.use_tp_pp_dp_mapping", "ranks in this order are not modelled"},
};

constexpr auto kMegatronBridgeSaying = CoreSaying(kBridgeNames, bridge::kShardsStates);

}  // namespace

constexpr FrameworkAdapter kMegatronBridgeAdapter = {
    .target = {kMegatronBridge, "overrides of a recipe of Megatron-Bridge, one a line", "bridge.overrides",
               kMegatronBridgeVersion, &CheckMegatronBridge, &WriteMegatronBridge},
    .rules = kMegatronBridgeRules,
    .read = &ReadMegatronBridge,
    .saying = kMegatronBridgeSaying,
    .harmless = kMegatronBridgeHarmless,
    .unmodelled = kMegatronBridgeUnmodelled,
    .form = SettingsForm::kOverrides,
    .recognizes =
        [](std::string_view text) {
          // Overrides of NeMo 1.x have no section "train".
          return HasLineThatBegins(text, "model.") && text.find("train.micro_batch_size=") != text.npos;
        },
    .global_batch = kBridgeNames.global_batch,
    .has_padded_vocab = true,
};

}  // namespace autocfg
