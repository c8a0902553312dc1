#include "search/frameworks/split_settings.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "search/frameworks/framework_rules.h"

namespace autocfg {
namespace {

// With '-' between the words. A name has one of these anywhere.
constexpr std::string_view kWordsOfSplitting[] = {"parallel",
                                                  "pipeline",
                                                  "shard",
                                                  "fsdp",
                                                  "offload",
                                                  "recompute",
                                                  "checkpoint-activations",
                                                  "overlap",
                                                  "expert",
                                                  "microbatch",
                                                  "micro-batch",
                                                  "activations-checkpoint",
                                                  "stage",
                                                  "dp-mapping",
                                                  "activation-checkpoint",
                                                  "ac-granularity",
                                                  "saved-activations",
                                                  "ulysses",
                                                  "hsdp",
                                                  "checkpoint-num-layers",
                                                  "bubble",
                                                  "zbv-",
                                                  "zb-runtime",
                                                  "dualpipe",
                                                  "zero-mode",
                                                  "remat",
                                                  "ring-attention",
                                                  "sparse-attention",
                                                  "swap-attention",
                                                  "-degree",
                                                  "tp-size",
                                                  "pp-size",
                                                  "dp-size",
                                                  "schedules-method"};

// Short words, of which a name has one between two '-' or '.'.
constexpr std::string_view kShortWords[] = {"tp", "pp", "dp", "cp", "ep", "sp", "mp", "noop"};

constexpr std::string_view kOfCheckpoints = "it is of checkpoints";
constexpr std::string_view kOfMixtures = "it says nothing without experts, which are refused";
constexpr std::string_view kOfOffload = "it says nothing without states in host memory, which are refused";
constexpr std::string_view kOfTorchFsdp = "it says nothing without --use-torch-fsdp2, which is refused";
constexpr std::string_view kOfContext = "it says nothing without context parallelism, which is refused";
constexpr std::string_view kOfTensorOverlap = "it tunes the overlap, whose chunks the framework chooses";
constexpr std::string_view kOfBuffers = "it is a size of buffers";
constexpr std::string_view kOfPrefetch =
    "is left out: a first bucket that is gathered earlier is not modelled";
constexpr std::string_view kNo = "--no-";
constexpr std::string_view kDefault = "it says the framework's default";
constexpr std::string_view kOfFloat8 = "is left out: parameters are counted as gathered in their precision";

constexpr HarmlessSetting kMegatronHarmless[] = {
    {"--ckpt-*", kOfCheckpoints},
    {"--no-ckpt-*", kOfCheckpoints},
    {"--dist-ckpt-*", kOfCheckpoints},
    {"--distrib-optim-fully-reshardable-mem-efficient", kOfCheckpoints},
    {"--no-strict-fsdp-dtensor-load", kOfCheckpoints},
    {"--non-persistent-*", kOfCheckpoints},
    {"--data-parallel-random-init", "it is of the initial weights"},
    {"--no-async-tensor-model-parallel-allreduce", "the framework ignores it"},
    {"--async-tensor-model-parallel-allreduce", "the framework ignores it"},
    {"--no-overlap-grad-reduce", kDefault},
    {"--no-overlap-param-gather", kDefault},
    {"--no-sequence-parallel", kDefault},
    {"--no-recompute-activations", kDefault},
    {"--no-scatter-gather-tensors-in-pipeline", "its core ignores it: sequence parallelism decides"},
    {"--pipeline-model-parallel-comm-backend", "it names the library that sends"},
    {"--tp-comm-overlap-*", kOfTensorOverlap},
    {"--disable-tp-comm-overlap-*", kOfTensorOverlap},
    {"--overlap-param-gather-with-optimizer-step", kOfPrefetch, /*noted=*/true},
    {"--overlap-p2p-communication-warmup-flush",
     "is left out: messages of warm-up and flush are predicted as without it", /*noted=*/true},
    {"--fsdp-double-buffer", "is left out: its second buffer is not counted", /*noted=*/true},
    {"--keep-fp8-transpose-cache-when-using-custom-fsdp", "is left out: its cache is not counted",
     /*noted=*/true},
    {"--torch-fsdp2-*", kOfTorchFsdp},
    {"--hierarchical-context-parallel-sizes", kOfContext},
    {"--moe-*", kOfMixtures},
    {"--expert-tensor-parallel-size", kOfMixtures},
    {"--overlap-moe-expert-parallel-comm", kOfMixtures},
    {"--enable-expert-bias", kOfMixtures},
    {"--optimizer-offload-fraction", kOfOffload},
    {"--overlap-cpu-optimizer-d2h-h2d", kOfOffload},
    {"--use-torch-optimizer-for-cpu-offload", kOfOffload},
    {"--cpu-offloading-activations", kOfOffload},
    {"--cpu-offloading-weights", kOfOffload},
    {"--inference-*", "it is of inference"},
    {"--rl-*", "it is of reinforcement learning, which another program does"},
    {"--eval-*", "it is of validation"},
};

constexpr HarmlessSetting kNemoHarmless[] = {
    {"exp_manager.*", kOfCheckpoints},
    {"model.moe_*", kOfMixtures},
    {"model.expert_tensor_parallel_size", kOfMixtures},
    {"model.fsdp_*", "it says nothing without model.fsdp, which is refused"},
    {"model.cpu_offloading_*", kOfOffload},
    {"model.ub_tp_comm_overlap_cfg", kOfTensorOverlap},
    {"model.tp_comm_overlap_*", kOfTensorOverlap},
    {"model.optim.overlap_param_gather_with_optimizer_step", kOfPrefetch, /*noted=*/true},
    {"model.validation_*", "it is of validation"},
    {"model.data.*", "it is of data"},
    {"model.dist_ckpt_*", kOfCheckpoints},
};

constexpr HarmlessSetting kDeepSpeedHarmless[] = {
    {"activation_checkpointing.contiguous_memory_optimization", "recomputation is the script's"},
    {"activation_checkpointing.number_checkpoints", "recomputation is the script's"},
    {"activation_checkpointing.synchronize_checkpoint_boundary", "recomputation is the script's"},
    {"activation_checkpointing.profile", "it is of logs"},
    {"aio.*", kOfOffload},
    {"autotuning.*", "it is of its own search"},
    {"checkpoint.*", kOfCheckpoints},
    {"elasticity.*", "it says nothing unless elasticity.enabled, which is refused"},
    {"pipeline.partition", "stages are read as balanced"},
    {"pipeline.seed_layers", "it is of the initial weights"},
    {"pipeline.pipe_partitioned", "it says nothing without tensor parallelism in a pipeline"},
    {"pipeline.grad_partitioned", "it says nothing without tensor parallelism in a pipeline"},
    {"pipeline.use_reentrant", "both ways recompute the same"},
    {"seq_parallel_comm_data_type", kOfContext},
    {"tensor_parallel.preset_model", "the model is --model"},
    {"tensor_parallel.partition_config*", "the model is --model"},
    {"zero_optimization.offload_optimizer.*", kOfOffload},
    {"zero_optimization.offload_param.*", kOfOffload},
    {"zero_optimization.stage3_*", kOfBuffers},
    {"zero_optimization.legacy_stage1", "it is another way of the same stage"},
};

constexpr HarmlessSetting kTorchtitanHarmless[] = {
    {"activation_checkpoint.early_stop", "it changes only what a last layer recomputes"},
    {"activation_checkpoint.memory_budget", "it says nothing of the modes that can be read"},
    {"activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
     "it says nothing of the modes that can be read"},
    {"activation_checkpoint.preserve_rng_state", "it is of random numbers"},
    {"activation_checkpoint.determinism_check", "it is of checks"},
    {"activation_checkpoint.debug", "it is of logs"},
    {"parallelism.context_parallel_*", kOfContext},
    {"parallelism.enable_compiled_autograd", "it is of compilation"},
    {"parallelism.expert_*", kOfMixtures},
    {"parallelism.pipeline_parallel_expert_parallel_overlap", kOfMixtures},
    {"float8.enable_fsdp_float8_all_gather", kOfFloat8, /*noted=*/true},
    {"quantize.linear.float8.enable_fsdp_float8_all_gather", kOfFloat8, /*noted=*/true},
    {"float8.precompute_float8_dynamic_scale_for_fsdp", "it is of scales"},
    {"quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp", "it is of scales"},
    {"fault_tolerance.*", "it says nothing unless fault_tolerance.enable, which is refused"},
    {"checkpoint.*", kOfCheckpoints},
    {"validation.*", "it is of validation"},
};

const HarmlessSetting* FindHarmless(std::string_view framework, std::string_view name) {
  for (const HarmlessSetting& harmless : HarmlessSettings(framework)) {
    const bool prefix = harmless.name.ends_with('*');
    if (prefix ? name.starts_with(harmless.name.substr(0, harmless.name.size() - 1)) : name == harmless.name)
      return &harmless;
  }
  return nullptr;
}

bool HasShortWord(std::string_view words) {
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = words.find_first_of("-.", begin);
    const std::string_view word = words.substr(begin, end == std::string_view::npos ? end : end - begin);
    if (std::find(std::begin(kShortWords), std::end(kShortWords), word) != std::end(kShortWords)) return true;
  }
  return false;
}

// Returns whether its value says that the setting does nothing.
bool IsOff(const Setting& setting) {
  constexpr std::array<std::string_view, 9> kOff = {"0",    "false", "False", "FALSE", "none",
                                                    "None", "null",  "~",     ""};
  if (!setting.unknown.empty() || setting.values.empty()) return false;
  const bool size = setting.name.ends_with("size") || setting.name.ends_with("degree") ||
                    HasShortWord(setting.name.substr(setting.name.find_last_of("-.") + 1));
  return std::all_of(setting.values.begin(), setting.values.end(), [&](const std::string& value) {
    return std::find(kOff.begin(), kOff.end(), value) != kOff.end() || (size && value == "1");
  });
}

}  // namespace

bool SpeaksOfSplitting(std::string_view name) {
  std::string words(name);
  std::replace(words.begin(), words.end(), '_', '-');
  return std::any_of(std::begin(kWordsOfSplitting), std::end(kWordsOfSplitting),
                     [&](std::string_view word) { return words.find(word) != std::string::npos; }) ||
         HasShortWord(words);
}

std::span<const HarmlessSetting> HarmlessSettings(std::string_view framework) {
  if (framework == kMegatron) return kMegatronHarmless;
  if (framework == kNemo) return kNemoHarmless;
  if (framework == kDeepSpeed) return kDeepSpeedHarmless;
  if (framework == kTorchtitan) return kTorchtitanHarmless;
  return {};
}

void RefuseUnreadSplits(std::string_view framework, const std::vector<const Setting*>& unread,
                        SettingReader& read) {
  for (const Setting* setting : unread) {
    if (!SpeaksOfSplitting(setting->name) || IsOff(*setting)) continue;
    const HarmlessSetting* harmless = FindHarmless(framework, setting->name);
    if (harmless != nullptr && harmless->why == kDefault) {
      const std::string positive = absl::StrCat("--", setting->name.substr(kNo.size()));
      if (const Setting* on = read.Find(positive); on != nullptr) {
        read.Fail(*setting, fmt::format("contradicts {} of line {}; leave one of them", on->name,
                                        read.text().Line(on->at)));
      }
      continue;
    }
    if (harmless == nullptr) {
      const std::string perhaps = setting->unknown.empty() ? "" : fmt::format(" ({})", setting->unknown);
      read.Fail(*setting, fmt::format("is unknown to autocfg, and by its name it may change how the work is "
                                      "split{}; leave it out to predict without it",
                                      perhaps));
    } else if (harmless->noted) {
      read.NoteOf(*setting, harmless->why);
    }
  }
}

}  // namespace autocfg
