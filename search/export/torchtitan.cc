#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "search/export/refusals.h"
#include "search/export/writers.h"
#include "search/plan/model_stages.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

// Returns the name of llama3's size with the model's shape; empty if there is none. The file has no keys for
// sizes.
std::string FlavorOf(const ModelSpec& model) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kFlavors = {
      {{"8B", "llama3-8b"}, {"70B", "llama3-70b"}, {"405B", "llama3-405b"}}};
  for (const auto& [flavor, preset] : kFlavors) {
    auto known = ModelPreset(preset);
    if (!known.ok()) continue;
    FillDefaults(*known);
    // What does not shape the model's step.
    known->name = model.name;
    known->max_seq_len = model.max_seq_len;
    known->rope_scaling = model.rope_scaling;
    known->vocab_multiple = model.vocab_multiple;
    if (*known == model) return std::string(flavor);
  }
  return "";
}

bool IsFullySharded(const ParallelPlan& plan) { return plan.zero_stage >= 2 && plan.dp > 1; }

void CheckTorchtitan(const ExportedRun& run, Refusals& refuse) {
  const std::string_view precision = Name(run.workload.precision);
  refuse.Unless(!FlavorOf(run.model).empty(),
                fmt::format("model={} (its files name sizes of llama3: 8B, 70B, 405B; others are Python)",
                            run.model.name));
  refuse.Unless(precision == "bf16" || precision == "fp32",
                fmt::format("precision={} (it has bf16 and fp32)", precision));
  refuse.ByRules(kTorchtitan, run);
}

std::string ScheduleName(const ParallelPlan& plan) {
  switch (plan.schedule) {
    case Schedule::kGPipe: return "GPipe";
    case Schedule::kOneFOneB:
    case Schedule::kZeroBubbleH1: return "1F1B";
    case Schedule::kInterleaved: return "Interleaved1F1B";
  }
  return "";
}

// The modules of each stage: without them, the framework's own split counts embedding and output as layers.
std::string ModulesOfStages(const ExportedRun& run) {
  std::vector<std::string> stages;
  for (std::int64_t stage = 0; stage < StageCount(run.plan); ++stage) {
    std::vector<std::string> modules;
    if (IsFirstStage(stage)) modules.emplace_back("\"tok_embeddings\"");
    const LayerRange layers = StageLayers(run.model, run.plan, stage);
    for (std::int64_t i = 0; i < layers.count; ++i)
      modules.push_back(fmt::format("\"layers.{}\"", layers.first + i));
    if (IsLastStage(run.plan, stage)) modules.insert(modules.end(), {"\"norm\"", "\"output\""});
    stages.push_back(fmt::format("  [{}]", fmt::join(modules, ", ")));
  }
  return fmt::format("[\n{}\n]", fmt::join(stages, ",\n"));
}

std::string Parallelism(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  const bool sharded = IsFullySharded(plan);
  const std::int64_t shards = sharded ? StateShards(plan) : 1;
  std::string text = fmt::format(
      "\n[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      plan.dp / shards, shards, plan.tp, plan.pp);
  if (sharded) {
    text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n", plan.zero_stage == 3 ? "always" : "never");
  }
  if (plan.tp_overlap > 1) text += "enable_async_tensor_parallel = true\n";
  if (plan.pp > 1) {
    text += fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
                        ScheduleName(plan), plan.micro_batch);
    text += fmt::format("module_fqns_per_model_part = {}\n", ModulesOfStages(run));
  }
  return text;
}

}  // namespace

absl::StatusOr<ExportedFile> WriteTorchtitan(const ExportedRun& run) {
  Refusals refuse;
  CheckTorchtitan(run, refuse);
  if (absl::Status status = refuse.For(kTorchtitan); !status.ok()) return status;
  const ParallelPlan& plan = run.plan;
  ExportedFile exported;
  if (plan.pp > 1) {
    exported.translated.emplace_back("the stages are module_fqns_per_model_part");
  }
  if (plan.tp_overlap > 1) {
    exported.translated.push_back(fmt::format(
        "tp_overlap={} is enable_async_tensor_parallel, which chooses the chunks itself and needs "
        "compilation",
        plan.tp_overlap));
  }
  exported.launch = {.program = "-m torchtitan.train", .arguments = "--job.config_file {file}"};
  std::string text = fmt::format("# torchtitan ({})\n", kTorchtitanVersion);
  for (const std::string& line : EvidenceLines(run)) text += fmt::format("# {}\n", line);
  for (const std::string& line : exported.translated) text += fmt::format("# translated: {}\n", line);
  text += fmt::format("# start: {}\n", TorchrunLine(exported.launch, LayoutOf(run)));
  // A pipeline takes all microbatches of a step at once; without one, gradients accumulate over them.
  const std::int64_t local_batch = plan.pp > 1 ? run.workload.global_batch / plan.dp : plan.micro_batch;
  text += fmt::format(
      "\n[model]\nname = \"llama3\"\nflavor = \"{}\"\nhf_assets_path = \"./tests/assets/tokenizer\"\n",
      FlavorOf(run.model));
  text += fmt::format(
      "\n[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\nsteps = {}\n"
      "max_norm = 1.0\ndataset = \"c4_test\"\nmixed_precision_param = \"{}\"\n",
      local_batch, run.workload.global_batch, run.workload.seq_len, run.tokens > 0 ? StepsOf(run) : 1000,
      Name(run.workload.precision) == "bf16" ? "bfloat16" : "float32");
  text += Parallelism(run);
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                      plan.recompute == Recompute::kFull ? "full" : "none");
  if (plan.tp_overlap > 1) text += "\n[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]\n";
  text +=
      "\n[optimizer]\nname = \"AdamW\"\nlr = 3e-4\nbeta1 = 0.9\nbeta2 = 0.95\neps = 1e-8\nweight_decay = "
      "0.1\n"
      "\n[lr_scheduler]\ndecay_type = \"cosine\"\nmin_lr_factor = 0.1\n\n[metrics]\nlog_freq = 1\n";
  exported.text = std::move(text);
  return exported;
}

}  // namespace autocfg
