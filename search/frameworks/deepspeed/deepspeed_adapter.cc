#include "search/frameworks/adapter.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/plan_rules.h"

namespace autocfg {
namespace {

constexpr LegalityRule kDeepSpeedRules[] = {
    kWholeKvHeads,
    {kCannot, "schedule", kReads<"pp", "schedule">,
     [](const PlanCase& c) { return SplitsDepth(c.plan) && c.plan.schedule != Schedule::kOneFOneB; },
     [](const PlanCase& c) { return SaysSchedule(c, "1f1b"); }},
    {kCannot, "equal_stages", kReads<"pp", "split">,
     [](const PlanCase& c) { return SplitsDepth(c.plan) && c.plan.split != SplitMode::kEven; },
     Says<"split (it balances stages itself)">},
    {kCannot, "tensor_with_pipeline", kReads<"tp", "pp">,
     [](const PlanCase& c) { return SplitsLayers(c.plan) && SplitsDepth(c.plan); },
     Says<"tp and pp together">},
    {kCannot, "tensor_with_parameters", kReads<"tp", "zero">,
     [](const PlanCase& c) { return SplitsLayers(c.plan) && c.plan.zero_stage == 3; },
     Says<"tp with zero=3">},
    {kCannot, "sharded_pipeline", kReads<"zero", "pp">,
     [](const PlanCase& c) { return c.plan.zero_stage >= 2 && SplitsDepth(c.plan); },
     Says<"zero=2 and 3 with pp (its pipeline refuses them)">},
    kSumsOfDeepSpeed,
    {kCannot, "sequence", kReads<"tp", "sp">, [](const PlanCase& c) { return SplitsSequence(c.plan); },
     Says<"sp=1 (its sequence parallelism is another)">},
    {kCannot, "overlapped_replicas", kReads<"zero", "pp", "grad_overlap">,
     [](const PlanCase& c) { return c.plan.grad_overlap && (c.plan.zero_stage < 2 || SplitsDepth(c.plan)); },
     Says<"grad_overlap=1 without zero=2 or 3">},
    {kCannot, "overlapped_gathering", kReads<"zero", "param_overlap">,
     [](const PlanCase& c) { return c.plan.param_overlap && c.plan.zero_stage != 3; },
     Says<"param_overlap=1 without zero=3">},
    {kCannot, "partial_shards", kReads<"zero", "dp_shard", "dp">,
     [](const PlanCase& c) { return HasPartialShards(c.plan) && c.plan.zero_stage != 3; },
     [](const PlanCase& c) { return fmt::format("dp_shard with zero={}", c.plan.zero_stage); }},
    {kCannot, "messages", kReads<"p2p_overlap">, [](const PlanCase& c) { return c.plan.p2p_overlap; },
     Says<"p2p_overlap=1">},
    {kCannot, "selective", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute == Recompute::kSelective; }, SaysRecompute},
    {kCannot, "full_layers", kReads<"recompute">,
     [](const PlanCase& c) { return c.plan.recompute_layers > 0; }, SaysRecompute},
};

constexpr HarmlessSetting kDeepSpeedHarmless[] = {
    {"activation_checkpointing.contiguous_memory_optimization "
     "activation_checkpointing.number_checkpoints "
     "activation_checkpointing.synchronize_checkpoint_boundary",
     "recomputation is the script's"},
    {"activation_checkpointing.profile", "it is of logs"},
    {"aio.* zero_optimization.offload_optimizer.* zero_optimization.offload_param.*", kOfOffload},
    {"autotuning.*", "it is of its own search"},
    {"checkpoint.*", kOfCheckpoints},
    {"elasticity.*", "it says nothing unless elasticity.enabled, which is refused"},
    {"pipeline.partition", "stages are read as balanced"},
    {"pipeline.seed_layers", "it is of the initial weights"},
    {"pipeline.pipe_partitioned pipeline.grad_partitioned",
     "it says nothing without tensor parallelism in a pipeline"},
    {"pipeline.use_reentrant", "both ways recompute the same"},
    {"seq_parallel_comm_data_type", kOfContext},
    {"tensor_parallel.preset_model tensor_parallel.partition_config*", "the model is --model"},
    {"zero_optimization.stage3_*", "it is a size of buffers"},
    {"zero_optimization.legacy_stage1", "it is another way of the same stage"},
    {"bf16.check_grad_overflow bf16.immediate_grad_update fp16.auto_cast fp16.consecutive_hysteresis "
     "fp16.hysteresis fp16.initial_scale_power fp16.loss_scale fp16.loss_scale_window fp16.min_loss_scale "
     "gradient_clipping gradient_predivide_factor prescale_gradients gradient_allreduce_op scheduler "
     "scheduler.* optimizer optimizer.* eigenvalue eigenvalue.* zero_allow_untested_optimizer",
     "it is of the update's numbers"},
    {"comet.* csv_monitor.* tensorboard.* wandb.* comms_logger.* flops_profiler.* dump_state "
     "memory_breakdown "
     "steps_per_print wall_clock_breakdown log_level",
     "it is of logs"},
    {"compile.*", "it is of compilation"},
    {"dataloader_drop_last data_efficiency.* curriculum_learning.*", "it is of data"},
    {"disable_allgather graph_harvesting legacy_fusion managed_gradient_accumulation sparse_gradients "
     "communication_data_type seq_parallel_communication_data_type use_data_before_expert_parallelism",
     "it is of how messages are sent"},
    {"tensor_parallel.*", "tensor parallelism is that of autotp_size"},
    {"torch_autocast torch_autocast.*", "precision is read from bf16 and fp16", /*noted=*/false},
    {"zero_force_ds_cpu_optimizer zero_optimization.cpu_offload_use_pin_memory", kOfOffload},
    {"zero_optimization.allgather_partitions zero_optimization.allgather_sequential "
     "zero_optimization.contiguous_gradients zero_optimization.max_* "
     "zero_optimization.param_persistence_threshold zero_optimization.prefetch_bucket_size "
     "zero_optimization.reduce_scatter zero_optimization.round_robin_gradients "
     "zero_optimization.use_* zero_optimization.mics_hierarchical_params_gather "
     "zero_optimization.module_granularity_threshold zero_optimization.leaf_module "
     "zero_optimization.zeropp_loco_param",
     "it is of buffers, and of how messages are sent"},
    {"zero_optimization.elastic_checkpoint zero_optimization.gather_16bit_weights_on_model_save "
     "zero_optimization.load_from_fp32_weights zero_optimization.pipeline_loading_checkpoint "
     "zero_optimization.save_muon_momentum_buffer_in_memory",
     kOfCheckpoints},
    {"zero_optimization.enable_sanity_checks zero_optimization.ignore_unused_parameters "
     "zero_optimization.log_trace_cache_warnings zero_optimization.memory_efficient_linear "
     "zero_optimization.override_module_apply",
     "it is of how the program runs"},
};

constexpr UnmodelledSetting kDeepSpeedUnmodelled[] = {
    {"zero_optimization.offload_optimizer.device zero_optimization.offload_param.device", kNoHostStates},
    {"activation_checkpointing.cpu_checkpointing", kNoHostActivations},
    {"zero_optimization.cpu_offload zero_optimization.cpu_offload_param zero_optimization.zenflow "
     "zero_optimization.zenflow.* compile.offload_opt_states compile.offload_parameters "
     "tensor_parallel.keep_module_on_host",
     kNoHostStates},
    {"zero_optimization.offload_optimizer zero_optimization.offload_param", kNoHostStates, "cpu nvme"},
    {"compile.offload_activation", kNoHostActivations},
    {"sparse_attention sparse_attention.*", "sparse attention is not modelled"},
    {"progressive_layer_drop progressive_layer_drop.enabled", "layers that are dropped are not modelled"},
    {"amp amp.enabled", "precisions of NVIDIA's amp are not modelled; bf16 and fp16 are"},
    {"tensor_parallel.replace_with_kernel_inject", "kernels that are put in are not modelled"},
    {"zero_optimization.zero_quantized_weights zero_optimization.zero_quantized_gradients "
     "zero_optimization.zero_quantized_nontrainable_weights",
     "quantized communication is not modelled"},
    {"elasticity.enabled", "the batch is known only when it starts"},
};

constexpr SayingSetting kDeepSpeedSaying[] = {
    deepspeed::kAxisSettings[0],          deepspeed::kAxisSettings[1], {"mbs", deepspeed::kMicroBatch},
    {"recompute", deepspeed::kRecompute}, {"zero", deepspeed::kStage},
};

}  // namespace

constexpr FrameworkAdapter kDeepSpeedAdapter = {
    .target = {kDeepSpeed, "JSON of DeepSpeed, without the model", "deepspeed.json", kDeepSpeedVersion,
               &CheckDeepSpeed, &WriteDeepSpeed},
    .rules = kDeepSpeedRules,
    .read = &ReadDeepSpeed,
    .saying = kDeepSpeedSaying,
    .harmless = kDeepSpeedHarmless,
    .unmodelled = kDeepSpeedUnmodelled,
    .form = SettingsForm::kJson,
    .take_launch = &FillInAutos,
    .recognizes =
        [](std::string_view text) {
          const auto has = [&](std::string_view key) {
            return text.find(fmt::format("\"{}\"", key)) != text.npos;
          };
          const bool own = has("best") && has("model");
          const bool neox = has("pipe_parallel_size") || has("pipe-parallel-size");
          return !own && !neox &&
                 (has(deepspeed::kGlobalBatch) || has(deepspeed::kMicroBatch) || has("zero_optimization"));
        },
    .global_batch = deepspeed::kGlobalBatch,
    .script_says =
        [](std::string_view option, const ParallelPlan& plan) {
          return option == "attention" || (option == "recompute" && !SplitsDepth(plan));
        },
};

}  // namespace autocfg
