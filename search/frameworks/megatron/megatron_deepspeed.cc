#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

// Whether the JSON is known. If not, notes that ZeRO is that of --zero-stage, or fails.
bool HasDeepSpeedConfig(SettingReader& read) {
  const Setting* trains = read.Find(megatron::kDeepSpeedFlag);
  if (!trains->unknown.empty()) {
    read.Fail(*trains, fmt::format("may be there or not: {}; give --env or the arguments that decide it",
                                   trains->unknown));
    return false;
  }
  const Setting* named = nullptr;
  for (const std::string_view name : megatron::kConfigFiles) {
    if (const Setting* setting = read.Find(name)) named = setting;
  }
  for (const NamedText& file : read.text().named) {
    if (file.text) return true;
  }
  const std::string what =
      named == nullptr
          ? std::string("--deepspeed_config is missing")
          : fmt::format("{} is not beside the script, nor does the script write it by cat or sed",
                        named->values.empty() ? std::string("the JSON file")
                                              : base::Printable(named->values.front()));
  if (read.Has(megatron::kZeroStage)) {
    read.NoteOf(named == nullptr ? *trains : *named,
                fmt::format("is not read: {}; ZeRO is that of {}", what, megatron::kZeroStage));
  } else {
    read.Fail(named == nullptr ? *trains : *named,
              fmt::format("cannot be read: {}; put it beside the script, add {}, or give its JSON file, with "
                          "--from deepspeed and --model",
                          what, megatron::kZeroStage));
  }
  return false;
}

// Fails if a number of the JSON is another than that of the flags. One that is not known says nothing.
void CheckConfigNumber(std::string_view name, std::int64_t value, std::string_view flag,
                       SettingReader& read) {
  const Setting* setting = read.Find(name);
  if (setting == nullptr || !setting->unknown.empty() ||
      setting->values == std::vector<std::string>{std::string(deepspeed::kChosenLater)})
    return;
  if (const std::int64_t said = read.Whole(name, value); read.ok() && said != value)
    read.Fail(*setting, fmt::format("is {}, and {} {}; change one of them", said, flag, value));
}

void CheckConfigBatches(SettingReader& read, const RunDraft& run) {
  const ParallelPlan& plan = run.plan;
  CheckConfigNumber(deepspeed::kMicroBatch, plan.micro_batch, kMegatronNames.micro_batch, read);
  CheckConfigNumber(deepspeed::kGlobalBatch, run.workload.global_batch, kMegatronNames.global_batch, read);
  if (!read.ok()) return;
  const std::int64_t microbatches = run.workload.global_batch / std::max<std::int64_t>(1, BatchRanks(plan)) /
                                    std::max<std::int64_t>(1, plan.micro_batch);
  CheckConfigNumber(deepspeed::kMicrobatches, microbatches,
                    fmt::format("{} gives", kMegatronNames.global_batch), read);
}

// Sets the types by the flags, without the JSON.
void ReadFlagTypes(SettingReader& read, RunDraft& run) {
  const bool bf16 = read.Flag(megatron::kBf16), fp16 = read.Flag(megatron::kFp16);
  if (bf16 && fp16)
    read.FailAgainst(*read.Find(megatron::kFp16), *read.Find(megatron::kBf16), "; leave one of them");
  run.workload.precision = *ParsePrecision(bf16 ? "bf16" : fp16 ? "fp16" : "fp32");
}

// The JSON decides. Its layers are made by the flags, which must say the same.
void ReadForkTypes(bool has_config, SettingReader& read, RunDraft& run) {
  ReadFlagTypes(read, run);
  const std::string by_flags(BaseName(run.workload.precision));
  if (!has_config) {
    ReadDeepSpeedSums(by_flags == "bf16", by_flags == "fp16", read, run);
    return;
  }
  ReadDeepSpeedPrecision(read, run);
  const std::string by_config(BaseName(run.workload.precision));
  if (!read.ok() || by_flags == by_config) return;
  const Setting* flag = read.Find(by_flags == "bf16" ? megatron::kBf16 : megatron::kFp16);
  const std::string says = fmt::format("the JSON of DeepSpeed says {}", by_config);
  if (flag != nullptr) {
    read.Fail(*flag,
              fmt::format("contradicts the JSON of DeepSpeed, which says {}; change one of them", by_config));
  } else {
    read.Note(fmt::format("{}, and the flags name no type: read as {}", says, by_config));
  }
}

// DeepSpeed's optimizer for bf16 shards its states over the data ranks without ZeRO, too
// (runtime/bf16_optimizer.py): the first stage, with gradients that are summed in fp32.
void ReadZeroOfBf16(SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const Precision& types = run.workload.precision;
  if (plan.zero_stage != 0 || types.compute != DType::kBF16 || types.gradients != DType::kF32) return;
  if (BatchRanks(plan) == 1) return;
  plan.zero_stage = 1;
  read.Note("without ZeRO, DeepSpeed's optimizer for bf16 shards its states too: read as zero=1");
}

void ReadForkZero(bool has_config, SettingReader& read, RunDraft& run) {
  const Setting* flag = read.Find(megatron::kZeroStage);
  if (!has_config) {
    run.plan.zero_stage = read.Whole(megatron::kZeroStage, 0, 0, 3);
    run.plan.grad_overlap = run.plan.zero_stage == 3 && run.plan.pp == 1;
    run.plan.param_overlap = run.plan.zero_stage == 3;
    return;
  }
  ReadDeepSpeedZero(read, run);
  ReadDeepSpeedBuckets(read, run);
  if (!read.ok() || flag == nullptr || !flag->unknown.empty()) return;
  if (const std::int64_t said = read.Whole(megatron::kZeroStage, 0, 0, 3);
      read.ok() && said != run.plan.zero_stage) {
    read.Fail(*flag, fmt::format("is {}, and the JSON of DeepSpeed says stage {}; change one of them", said,
                                 run.plan.zero_stage));
  }
}

// Its pipeline balances the layers whose class the pattern names: those of the transformer by default.
void ReadStagePartition(SettingReader& read, RunDraft& run) {
  constexpr std::string_view kPartition = "--pp-partition-method";
  const std::string method = read.Text(kPartition, "type:transformer");
  ParallelPlan& plan = run.plan;
  if (method == "type:transformer" || method == "type:Transformer" || plan.pp == 1) return;
  const bool ends = method == "type:transformer|embedding" || method == "type:embed|transformer";
  const std::int64_t layers = run.model.layers, each = (layers + 2) / plan.pp;
  if (ends && each == 1) {
    read.Fail(*read.Find(kPartition),
              fmt::format("is '{}': of {} layers, it leaves the first of {} stages the embedding alone, and "
                          "stages without layers are not modelled",
                          base::Printable(method), layers, plan.pp));
    return;
  }
  if (!ends || (layers + 2) % plan.pp != 0) {
    read.Fail(*read.Find(kPartition),
              fmt::format("is '{}'; of {} layers on {} stages, only type:transformer{} can be read",
                          base::Printable(method), layers, plan.pp,
                          ends ? ", or layers + 2 that divide," : " and type:transformer|embedding"));
    return;
  }
  std::vector<std::int64_t> stages(static_cast<std::size_t>(plan.pp), each);
  --stages.front();
  --stages.back();
  SetStages(std::move(stages), run);
}

void ReadForkPipeline(SettingReader& read, RunDraft& run) {
  constexpr std::string_view kNoPipeline = "--no-pipeline-parallel";
  if (run.plan.pp == 1) {
    (void)read.Find(kNoPipeline);  // there is none
  } else if (read.Flag(kNoPipeline)) {
    read.Fail(*read.Find(kNoPipeline), fmt::format("needs {} 1, which is {}; change one of them",
                                                   kMegatronNames.axes[1].setting, run.plan.pp));
  }
  ReadStagePartition(read, run);
}

// Its layers are of before Megatron's core, which store the scores of attention unless a flag says otherwise.
void ReadForkAttention(SettingReader& read, RunDraft& run) {
  bool fused = false;
  for (const std::string_view flag : {"--use-flash-attn", "--use-flash-attn-v1", "--use-flash-attn-v2",
                                      "--use-flash-attn-triton", "--use-flash-attn-builder"})
    fused = read.Flag(flag) || fused;
  run.plan.attention = fused ? Attention::kFused : Attention::kUnfused;
  std::erase(run.unsaid, "attention");
}

}  // namespace

void ReadMegatronDeepSpeed(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ReadMegatronModel(options, read, run);
  const bool has_config = read.ok() && HasDeepSpeedConfig(read);
  if (!read.ok()) return;
  const CoreNames names = MegatronNamesIn(read);
  ReadFlagTypes(read, run);  // for what the flags say of attention
  ReadCorePlan(names, options, read, run);
  read.RefuseAboveOne("--ds-sequence-parallel-size", "sequence parallelism of its own kind is not modelled");
  ReadForkPipeline(read, run);
  if (!read.ok()) return;
  ReadForkAttention(read, run);
  ReadMegatronRecompute(names, read, run);
  ReadForkZero(has_config, read, run);
  ReadForkTypes(has_config, read, run);
  ReadZeroOfBf16(read, run);
  ReadOptimizer({.name = megatron::kOptimizer, .momentum = megatron::kMomentum, .default_momentum = 0.9},
                read, run);
  if (read.ok()) CheckConfigBatches(read, run);
  if (const Setting* ramp = read.Find("--rampup-batch-size"))
    read.NoteOf(*ramp, fmt::format("is left out: the batch is the last one, {} sequences",
                                   run.workload.global_batch));
}

ExportedFile WriteMegatronDeepSpeedPlan(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  ExportedFile file;
  ForEachAxis(kMegatronNames.axes, plan, [&](std::string_view setting, std::int64_t size) {
    file.text += fmt::format("{} {}\n", setting, size);
  });
  file.text += fmt::format("{} {}\n{} {}\n{} {}\n", kMegatronNames.micro_batch, plan.micro_batch,
                           kMegatronNames.global_batch, run.workload.global_batch, megatron::kZeroStage,
                           plan.zero_stage);
  if (plan.recompute == Recompute::kFull) file.text += "--checkpoint-activations\n";
  file.launch = {.program = "pretrain_gpt.py", .arguments = "$(cat {file})"};
  return file;
}

}  // namespace autocfg
