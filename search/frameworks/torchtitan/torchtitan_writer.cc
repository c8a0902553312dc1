#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/plan/model_stages.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

// Returns the name of llama3's size with the model's shape; empty if there is none. The file has no keys for
// sizes.
std::string FlavorOf(const ModelSpec& model) {
  for (const auto& [flavor, preset] : torchtitan::kFlavors) {
    auto known = ModelPreset(preset);
    if (!known.ok()) continue;
    FillDefaults(*known);
    // What does not shape the model's step.
    known->name = model.name;
    known->max_seq_len = model.max_seq_len;
    known->rope_scaling = model.rope_scaling;
    known->rope_scaling_parameters = model.rope_scaling_parameters;
    known->vocab_multiple = model.vocab_multiple;
    if (*known == model) return std::string(flavor);
  }
  return "";
}

bool IsFullySharded(const ParallelPlan& plan) { return plan.zero_stage >= 2 && BatchRanks(plan) > 1; }

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

// Lines of TOML in tables, by names with dots.
class TomlFile {
 public:
  template <typename T>
  void Set(std::string_view name, const T& value) {
    const std::string_view table = name.substr(0, name.rfind('.'));
    if (table != table_) text_ += fmt::format("\n[{}]\n", table);
    table_ = table;
    text_ += fmt::format("{} = {}\n", LastPart(name), value);
  }
  void SetText(std::string_view name, std::string_view value) { Set(name, fmt::format("\"{}\"", value)); }
  const std::string& text() const { return text_; }

 private:
  std::string text_, table_;
};

void WriteParallelism(const ExportedRun& run, TomlFile& file) {
  const ParallelPlan& plan = run.plan;
  const bool sharded = IsFullySharded(plan);
  const std::int64_t shards = sharded ? StateShards(plan) : 1;
  file.Set(torchtitan::kReplicas, BatchRanks(plan) / shards);
  file.Set(torchtitan::kShards, shards);
  ForEachAxis(torchtitan::kAxisSettings, plan,
              [&](std::string_view setting, std::int64_t size) { file.Set(setting, size); });
  if (sharded)
    file.SetText(torchtitan::kReshard, plan.zero_stage == 3 ? torchtitan::kAlways : torchtitan::kNever);
  if (plan.tp_overlap > 1) file.Set(torchtitan::kTpOverlap, "true");
  if (SplitsDepth(plan)) {
    for (const auto& [schedule, name] : torchtitan::kSchedules) {
      if (schedule == plan.schedule) file.SetText(torchtitan::kSchedule, name);
    }
    file.Set(torchtitan::kMicroBatch, plan.micro_batch);
    file.Set(torchtitan::kStages, ModulesOfStages(run));
  }
}

}  // namespace

void CheckTorchtitan(const ExportedRun& run, Refusals& refuse) {
  refuse.UnlessModel(
      !FlavorOf(run.model).empty(),
      fmt::format("model={} (its files name sizes of llama3: 8B, 70B, 405B; others are Python)",
                  run.model.name.empty() ? "unnamed" : base::Printable(run.model.name)));
  // Its sizes have the scaling of Llama 3.1, and no keys for another.
  refuse.UnlessModel(
      run.model.rope_scaling == RopeScaling::kNone ||
          (run.model.rope_scaling == RopeScaling::kLlama3 &&
           (NamesRopeScalingAlone(run.model) || run.model.rope_scaling_parameters == Llama3Scaling(8))),
      fmt::format("rope_scaling={} (it has llama3, with the parameters of Llama 3.1)",
                  Name(run.model.rope_scaling)));
  refuse.UnlessPrecision(run, {"bf16", "fp32"}, "bf16 and fp32");
}

ExportedFile WriteTorchtitan(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  ExportedFile exported;
  if (SplitsDepth(plan)) {
    exported.translated.emplace_back("the stages are module_fqns_per_model_part");
  }
  if (plan.tp_overlap > 1) {
    exported.translated.push_back(fmt::format(
        "tp_overlap={} is enable_async_tensor_parallel, which chooses the chunks itself and needs "
        "compilation",
        plan.tp_overlap));
  }
  exported.launch = {.program = "-m torchtitan.train", .arguments = "--job.config_file {file}"};
  // A pipeline takes all microbatches of a step at once; without one, gradients accumulate over them.
  const std::int64_t local_batch =
      SplitsDepth(plan) ? run.workload.global_batch / BatchRanks(plan) : plan.micro_batch;
  TomlFile file;
  file.SetText(torchtitan::kModel, torchtitan::kLlama3);
  file.SetText(torchtitan::kFlavor, FlavorOf(run.model));
  file.SetText("model.hf_assets_path", "./tests/assets/tokenizer");
  file.Set(torchtitan::kLocalBatch, local_batch);
  file.Set(torchtitan::kGlobalBatch, run.workload.global_batch);
  file.Set(torchtitan::kSeqLen, run.workload.seq_len);
  file.Set("training.steps", run.tokens > 0 ? StepsOf(run) : 1000);
  file.Set("training.max_norm", "1.0");
  file.SetText("training.dataset", "c4_test");
  file.SetText(torchtitan::kPrecision, BaseName(run.workload.precision) == "bf16" ? "bfloat16" : "float32");
  WriteParallelism(run, file);
  file.SetText(torchtitan::kRecompute,
               plan.recompute == Recompute::kFull ? torchtitan::kFullRecompute : torchtitan::kNoRecompute);
  if (plan.tp_overlap > 1) {
    file.Set("compile.enable", "true");
    file.Set("compile.components", "[\"model\", \"loss\"]");
  }
  file.SetText("optimizer.name", "AdamW");
  for (const auto& [name, value] : {std::pair("lr", "3e-4"),
                                    {"beta1", "0.9"},
                                    {"beta2", "0.95"},
                                    {"eps", "1e-8"},
                                    {"weight_decay", "0.1"}})
    file.Set(fmt::format("optimizer.{}", name), value);
  file.SetText("lr_scheduler.decay_type", "cosine");
  file.Set("lr_scheduler.min_lr_factor", "0.1");
  file.Set("metrics.log_freq", 1);
  exported.text = HeaderOf(fmt::format("torchtitan ({})", kTorchtitanVersion), run, exported) + file.text();
  return exported;
}

}  // namespace autocfg
