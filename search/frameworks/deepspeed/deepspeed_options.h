// The options of DeepSpeed that its reader does not read: those that can be left out, and those that are
// refused. tests/search/frameworks/options/deepspeed.txt lists all options of its releases.
#pragma once

#include "search/frameworks/settings/unmodelled.h"
#include "search/frameworks/split_settings.h"

namespace autocfg {

inline constexpr HarmlessSetting kDeepSpeedHarmless[] = {
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

inline constexpr UnmodelledSetting kDeepSpeedUnmodelled[] = {
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

}  // namespace autocfg
