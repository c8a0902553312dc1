// Accelerate's YAML. Defaults: accelerate/utils/dataclasses.py (FullyShardedDataParallelPlugin) and
// accelerate/commands/launch.py.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/numbers.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/accelerate/accelerate.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/settings/settings_forms.h"

namespace autocfg {
namespace {

struct FsdpStrategy {
  std::string_view name, number;
  std::int64_t zero;
  bool hybrid;
};
constexpr std::array<FsdpStrategy, 5> kFsdpStrategies = {{{"FULL_SHARD", "1", 3, false},
                                                          {"SHARD_GRAD_OP", "2", 2, false},
                                                          {"NO_SHARD", "3", 0, false},
                                                          {"HYBRID_SHARD", "4", 3, true},
                                                          {"HYBRID_SHARD_ZERO2", "5", 2, true}}};

void ReadFsdpStrategy(SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  plan.zero_stage = 3;
  // Its second version says whether parameters stay gathered behind the forward; a number is a strategy.
  const std::string reshard = absl::AsciiStrToLower(read.Text(accelerate::kReshard, "true"));
  if (reshard == "false") plan.zero_stage = 2;
  const std::string said = read.Text(accelerate::kStrategy, reshard.size() == 1 ? reshard : "");
  if (said.empty()) return;
  const auto found = std::ranges::find_if(
      kFsdpStrategies, [&](const FsdpStrategy& each) { return each.name == said || each.number == said; });
  if (found == kFsdpStrategies.end()) {
    read.Fail(
        *read.Find(read.Has(accelerate::kStrategy) ? accelerate::kStrategy : accelerate::kReshard),
        fmt::format("is '{}'; give FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or HYBRID_SHARD_ZERO2",
                    base::Printable(said)));
    return;
  }
  plan.zero_stage = found->zero;
  if (found->hybrid && run.ranks_per_node > 0 && run.ranks_per_node < plan.dp)
    plan.dp_shard = run.ranks_per_node;
}

// The axes of its meshes, in place of a strategy.
void ReadMeshAxes(SettingReader& read, ParallelPlan& plan) {
  const std::int64_t replicas = read.Whole("parallelism_config.parallelism_config_dp_replicate_size", 1);
  const std::int64_t shards = read.Whole("parallelism_config.parallelism_config_dp_shard_size", 1);
  if (replicas > 1 && plan.dp % replicas != 0) {
    read.Fail(
        *read.Find("parallelism_config.parallelism_config_dp_replicate_size"),
        fmt::format("is {}, which does not divide the {} data ranks; change one of them", replicas, plan.dp));
    return;
  }
  if (replicas > 1 && plan.zero_stage > 0) {
    if (shards == 1) plan.zero_stage = 0;
    if (shards > 1) plan.dp_shard = plan.dp / replicas;
  }
}

void ReadAccelerateStates(SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const std::string kind = absl::AsciiStrToUpper(read.Text(accelerate::kKind, "NO"));
  if (kind == "FSDP") {
    ReadFsdpStrategy(read, run);
    ReadMeshAxes(read, plan);
    plan.grad_overlap = true;
    plan.param_overlap = plan.zero_stage > 0;
  } else if (kind == "DEEPSPEED") {
    plan.zero_stage = read.Whole(accelerate::kStage, 2, 0, 3);
    plan.grad_overlap = plan.zero_stage == 3;
    plan.param_overlap = plan.zero_stage == 3;
    if (plan.zero_stage > 0 && run.workload.precision.compute == DType::kBF16)
      run.workload.precision.gradients = DType::kBF16;  // ReadDeepSpeedSums
    read.NoteOf(*read.Find(accelerate::kKind),
                "is DEEPSPEED: its step is predicted with the figures of FSDP");
  } else if (kind == "MULTI_GPU" || kind == "NO") {
    plan.grad_overlap = true;
  } else {
    read.Fail(*read.Find(accelerate::kKind),
              fmt::format("is '{}', which is not modelled; FSDP, DEEPSPEED, MULTI_GPU and NO can be read",
                          base::Printable(kind)));
  }
  if (plan.dp == 1) plan.grad_overlap = plan.param_overlap = false;
}

// The batch is that of options of Hugging Face's Trainer, behind the file, or of --plan mbs.
void ReadAccelerateBatch(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  SettingsText trainer;
  AddFlags(options.launch.arguments, trainer);
  const auto size = [&](std::string_view name) {
    for (Setting& option : trainer.settings) {
      std::ranges::replace(option.name, '-', '_');
      if (option.name != fmt::format("__{}", name)) continue;
      const std::string value = option.values.size() == 1 ? option.values.front() : "";
      if (const auto count = base::ParseNumber<std::int64_t>(value, 1, kMostSize)) return *count;
      read.Fail(
          fmt::format("--{} behind it is '{}'; give a whole number from 1 on", name, base::Printable(value)));
    }
    return std::int64_t{0};
  };
  std::int64_t micro = size("per_device_train_batch_size");
  if (const auto said = options.plan.find("mbs"); micro == 0 && said != options.plan.end())
    micro = base::ParseNumber<std::int64_t>(said->second, 1, kMostSize).value_or(0);
  if (micro == 0) {
    read.Fail("the batch is the script's: give --plan mbs=1, or -- --per_device_train_batch_size 1");
    return;
  }
  std::int64_t steps = size("gradient_accumulation_steps");
  if (steps == 0) {
    constexpr std::string_view kSteps = "deepspeed_config.gradient_accumulation_steps";
    const Setting* said = read.Find(kSteps);
    const bool whole =
        said != nullptr && !said->values.empty() && said->values.front() != deepspeed::kChosenLater;
    steps = whole ? read.Whole(kSteps, 1) : read.Whole("gradient_accumulation_steps", 1);
  }
  run.plan.micro_batch = micro;
  run.workload.global_batch = Times(Times(micro, steps), run.plan.dp);
}

void ReadAcceleratePrecision(SettingReader& read, RunDraft& run) {
  const std::string type = absl::AsciiStrToLower(read.Text("mixed_precision", "no"));
  if (type != "no" && type != "bf16" && type != "fp16" && type != "fp8") {
    read.Fail(*read.Find("mixed_precision"),
              fmt::format("is '{}'; give no, bf16, fp16 or fp8", base::Printable(type)));
    return;
  }
  run.workload.precision = *ParsePrecision(type == "no" ? "fp32" : type);
}

}  // namespace

void ReadAccelerate(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  if (!options.model) {
    read.Fail("the format says nothing of the model; give --model");
    return;
  }
  ParallelPlan& plan = run.plan;
  run.model = *options.model;
  run.workload.seq_len = options.seq_len > 0 ? options.seq_len : run.model.max_seq_len;
  const std::int64_t ranks = read.Whole(accelerate::kProcesses, 0),
                     machines = read.Whole(accelerate::kMachines, 1);
  run.ranks = options.ranks > 0 ? options.ranks : ranks;
  if (run.ranks == 0) {
    read.Fail("the file does not say how many ranks train; give --ranks or --cluster");
    return;
  }
  if (run.ranks % machines == 0) run.ranks_per_node = run.ranks / machines;
  plan.tp = read.Whole(accelerate::kTp, 1);
  SetDataRanks(std::array<SayingSetting, 1>{{{"tp", accelerate::kTp}}}, read, run);
  ReadAccelerateBatch(options, read, run);
  if (!read.ok()) return;
  ReadAcceleratePrecision(read, run);
  ReadAccelerateStates(read, run);
  run.unsaid.emplace_back("attention");
  run.unsaid.emplace_back("mbs");
  if (read.Flag(accelerate::kRecompute)) {
    plan.recompute = Recompute::kFull;
  } else {
    run.unsaid.emplace_back("recompute");
    if (!options.plan.contains("recompute"))
      read.Note(
          "the script may recompute layers: read as recompute=none; --plan recompute=full says otherwise");
  }
}

}  // namespace autocfg
