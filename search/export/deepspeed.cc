#include <fmt/format.h>

#include <string>

#include "nlohmann/json.hpp"
#include "search/export/refusals.h"
#include "search/export/writers.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

using DeepSpeedJson = nlohmann::ordered_json;

void CheckDeepSpeed(const ExportedRun& run, Refusals& refuse) {
  const std::string_view precision = Name(run.workload.precision);
  refuse.Unless(precision == "fp32" || precision == "bf16" || precision == "fp16",
                fmt::format("precision={} (it has fp32, bf16 and fp16)", precision));
  refuse.ByRules(kDeepSpeed, run);
}

DeepSpeedJson ZeroJson(const ParallelPlan& plan) {
  DeepSpeedJson zero{{"stage", plan.zero_stage}};
  if (plan.zero_stage >= 2) zero["overlap_comm"] = plan.grad_overlap;
  if (plan.zero_stage == 3) {
    constexpr std::int64_t kDefaultPrefetch = 50'000'000;  // elements
    zero["stage3_prefetch_bucket_size"] = plan.param_overlap ? kDefaultPrefetch : 0;
    if (StateShards(plan) < plan.dp) zero["mics_shard_size"] = StateShards(plan);
  }
  return zero;
}

}  // namespace

absl::StatusOr<ExportedFile> WriteDeepSpeed(const ExportedRun& run) {
  Refusals refuse;
  CheckDeepSpeed(run, refuse);
  if (absl::Status status = refuse.For(kDeepSpeed); !status.ok()) return status;
  const ParallelPlan& plan = run.plan;
  const std::string_view precision = Name(run.workload.precision);
  ExportedFile exported;
  DeepSpeedJson json{{"train_batch_size", run.workload.global_batch},
                     {"train_micro_batch_size_per_gpu", plan.micro_batch},
                     {"gradient_accumulation_steps", MicrobatchCount(run.workload, plan)}};
  if (precision != "fp32") json[std::string(precision)] = {{"enabled", true}};
  json["zero_optimization"] = ZeroJson(plan);
  if (plan.tp > 1) {
    json["tensor_parallel"] = {{"autotp_size", plan.tp}, {"tp_overlap_comm", plan.tp_overlap > 1}};
    if (plan.tp_overlap > 1) {
      exported.translated.push_back(
          fmt::format("tp_overlap={} is tp_overlap_comm, a switch without chunks", plan.tp_overlap));
    }
  }
  if (plan.pp > 1) {
    json["pipeline"] = {{"stages", plan.pp},
                        {"activation_checkpoint_interval", plan.recompute == Recompute::kFull ? 1 : 0}};
    exported.translated.push_back(fmt::format(
        "pp={0} is for your script: PipelineModule(num_stages={0}), partitioned by the class of a layer",
        plan.pp));
  } else if (plan.recompute == Recompute::kFull) {
    exported.translated.push_back("recompute=full is for your script: it checkpoints every layer");
  }
  if (IsUnfused(plan)) exported.translated.push_back("attention=unfused is for your script");
  json["gradient_clipping"] = 1.0;
  json["optimizer"] = {
      {"type", "AdamW"},
      {"params", {{"lr", 3e-4}, {"betas", {0.9, 0.95}}, {"eps", 1e-8}, {"weight_decay", 0.1}}}};
  json["steps_per_print"] = 1;
  exported.text = json.dump(2) + "\n";
  for (const std::string& line : EvidenceLines(run)) exported.evidence += line + "\n";
  exported.translated.push_back(
      "the model, its sequence length and its data are your script's: the format has no keys for them");
  for (const std::string& line : exported.translated) exported.evidence += "translated: " + line + "\n";
  exported.launch = {.program = "train.py", .arguments = "--deepspeed_config {file}"};
  exported.evidence += "start: " + TorchrunLine(exported.launch, LayoutOf(run)) + "\n";
  return exported;
}

}  // namespace autocfg
