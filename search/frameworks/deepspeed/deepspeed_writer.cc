#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "nlohmann/json.hpp"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

using DeepSpeedJson = nlohmann::ordered_json;

// Sets the value of a name with dots.
template <typename T>
void Put(std::string_view name, const T& value, DeepSpeedJson& json) {
  std::string path = fmt::format("/{}", name);
  std::replace(path.begin(), path.end(), '.', '/');
  json[DeepSpeedJson::json_pointer(path)] = value;
}

void PutZero(const ExportedRun& run, DeepSpeedJson& json) {
  const ParallelPlan& plan = run.plan;
  const Precision& types = run.workload.precision;
  const bool bf16 = types.compute == DType::kBF16, narrow = types.gradients == DType::kBF16;
  // A single data rank has nothing to shard, and ZeRO's way of summing.
  const std::int64_t stage =
      bf16 && narrow && !SplitsDepth(plan) ? std::max<std::int64_t>(plan.zero_stage, 1) : plan.zero_stage;
  Put(deepspeed::kStage, stage, json);
  if (bf16 && narrow != (stage > 0)) Put(deepspeed::kSums, narrow ? "bf16" : "fp32", json);
  if (plan.zero_stage >= 2) Put(deepspeed::kGradOverlap, plan.grad_overlap, json);
  if (plan.zero_stage != 3) return;
  constexpr std::int64_t kDefaultPrefetch = 50'000'000;  // elements
  Put(deepspeed::kPrefetch, plan.param_overlap ? kDefaultPrefetch : 0, json);
  if (StateReplicas(plan) > 1) Put(deepspeed::kShards, StateShards(plan), json);
}

}  // namespace

void CheckDeepSpeed(const ExportedRun& run, Refusals& refuse) {
  ExportedRun summed = run;  // in either type, which a setting says
  if (summed.workload.precision.compute == DType::kBF16) summed.workload.precision.gradients = DType::kF32;
  refuse.UnlessPrecision(summed, {"fp32", "bf16", "fp16"}, "fp32, bf16 and fp16");
}

ExportedFile WriteDeepSpeed(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  const std::string_view precision = BaseName(run.workload.precision);
  ExportedFile exported;
  DeepSpeedJson json;
  Put(deepspeed::kGlobalBatch, run.workload.global_batch, json);
  Put(deepspeed::kMicroBatch, plan.micro_batch, json);
  Put(deepspeed::kMicrobatches, MicrobatchCount(run.workload, plan), json);
  if (precision != "fp32") json[std::string(precision)] = {{"enabled", true}};
  PutZero(run, json);
  if (plan.tp > 1) {
    Put(deepspeed::kTp, plan.tp, json);
    Put(deepspeed::kTpOverlap, plan.tp_overlap > 1, json);
    if (plan.tp_overlap > 1) {
      exported.translated.push_back(
          fmt::format("tp_overlap={} is tp_overlap_comm, a switch without chunks", plan.tp_overlap));
    }
  }
  if (plan.pp > 1) {
    Put(deepspeed::kPp, plan.pp, json);
    Put(deepspeed::kRecompute, plan.recompute == Recompute::kFull ? 1 : 0, json);
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
