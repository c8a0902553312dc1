// nanotron's YAML. Defaults: nanotron/config (parallelism_config.py, models_config.py, config.py) of the
// sources that nanotron.h names.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/nanotron/nanotron.h"
#include "search/plan/engine_stages/weighted_stages.h"

namespace autocfg {
namespace {

constexpr std::string_view kNanotronScaling = "model.model_config.rope_scaling.";
constexpr std::string_view kNanotronAttention = "model.model_config._attn_implementation";
constexpr std::string_view kNanotronVocab = "model.model_config.vocab_size";

// Predictions need no more of scaled frequencies than that they are scaled.
void ReadNanotronScaling(SettingReader& read, ModelSpec& model) {
  const bool scaled = std::ranges::any_of(read.text().settings, [&](const Setting& setting) {
    return setting.name.starts_with(kNanotronScaling);
  });
  for (const std::string_view part : {"factor", "low_freq_factor", "high_freq_factor",
                                      "original_max_position_embeddings", "rope_type", "type"})
    (void)read.Find(fmt::format("{}{}", kNanotronScaling, part));
  if (scaled) model.rope_scaling = RopeScaling::kLlama3;
}

void ReadNanotronVocab(const ReadingOptions& options, SettingReader& read, ModelSpec& model) {
  // -1: that of the data set.
  const std::int64_t said = read.Whole(kNanotronVocab, 32000, -1);
  if (said > 0) {
    CheckSaidVocab(kNanotronVocab, said, options, read);
    model.vocab = said;
  } else {
    model.vocab = options.vocab;
    if (options.vocab == 0) read.Fail(*read.Find(kNanotronVocab), "is that of the data set; give --vocab");
  }
  model.vocab_multiple = read.Whole("model.make_vocab_size_divisible_by", 1);
}

// Its kinds of layers: Llama's, and Qwen2's with biases of q, k and v.
void ReadNanotronModel(const ReadingOptions& options, SettingReader& read, ModelSpec& model) {
  const auto named = [](std::string_view name) { return fmt::format("model.model_config.{}", name); };
  model.layers = read.Whole(named("num_hidden_layers"), 32);
  model.hidden = read.Whole(named("hidden_size"), 4096);
  model.heads = read.Whole(named("num_attention_heads"), 32);
  model.kv_heads = read.Whole(named("num_key_value_heads"), model.heads);
  model.ffn_hidden = read.Whole(named("intermediate_size"), 11008);
  model.max_seq_len = read.Whole(named("max_position_embeddings"), 2048);
  model.norm = Norm::kRmsNorm;
  model.norm_eps = read.Real(named("rms_norm_eps"), 1e-6);
  model.position = Position::kRope;
  model.rope_theta = read.Real(named("rope_theta"), 10000);
  ReadNanotronScaling(read, model);
  model.init_std = read.Real("model.init_method.std", 0.02);
  model.tied_embeddings = read.Flag(named("tie_word_embeddings"));
  SetBiases(model, false);
  model.qkv_bias = read.Flag(named("attention_bias"));
  const std::string activation = read.Text(named("hidden_act"), "silu");
  model.activation = activation == "silu" ? Activation::kSwiGlu : Activation::kGeGlu;
  if (activation != "silu" && !activation.starts_with("gelu")) {
    read.Fail(*read.Find(named("hidden_act")),
              fmt::format("is '{}', which is not modelled; only silu and gelu can be read",
                          base::Printable(activation)));
  }
  const LayerPattern pattern{.sliding_window = read.Whole(named("sliding_window_size"), 0, 0),
                             .no_rope_layer_interval = read.Whole(named("no_rope_layer"), 0, 0)};
  ReadNanotronVocab(options, read, model);
  if (!read.ok()) return;
  if (const absl::Status status = ApplyPattern(pattern, model); !status.ok())
    read.Fail(std::string(status.message()));
}

void ReadNanotronPrecision(SettingReader& read, RunDraft& run) {
  Workload& workload = run.workload;
  const std::string type = read.Text("model.dtype", "bfloat16");
  const bool wide = read.Flag("optimizer.accumulate_grad_in_fp32", true);
  if (type == "bfloat16" || type == "float16") {
    const std::string base = type == "bfloat16" ? "bf16" : "fp16";
    // The optimizer then updates the parameters themselves, with states of their type.
    workload.precision =
        *ParsePrecision(wide ? base : fmt::format("{0}:grads={0},moments={0},master=none", base));
  } else if (type != "float32") {
    read.Fail(*read.Find("model.dtype"),
              fmt::format("is '{}', which is not modelled; bfloat16, float16 and float32 can be read",
                          base::Printable(type)));
  }
  ReadOptimizer({.name = "optimizer.optimizer_factory.name",
                 .momentum = "optimizer.optimizer_factory.momentum",
                 .otherwise = "adamW"},
                read, run);
}

void ReadNanotronSchedule(SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const std::string schedule = read.Text(nanotron::kSchedule, "afab");
  if (schedule != "afab" && schedule != "1f1b") {
    read.Fail(*read.Find(nanotron::kSchedule),
              fmt::format("is '{}'; give 1f1b or afab", base::Printable(schedule)));
  }
  if (plan.pp == 1 || !read.ok()) return;
  plan.schedule = schedule == "afab" ? Schedule::kGPipe : Schedule::kOneFOneB;
  std::vector<std::int64_t> stages = StagesByWeight(run.model, plan.pp);
  if (std::ranges::find(stages, 0) != stages.end()) {
    read.Fail(
        *read.Find(nanotron::kAxisSettings[1].setting),
        fmt::format("is {}, and nanotron's balance then leaves a stage without a layer of {}; give fewer",
                    plan.pp, run.model.layers));
    return;
  }
  SetStages(std::move(stages), run);
}

void ReadNanotronTensorMode(SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const std::string mode = absl::AsciiStrToUpper(read.Text(nanotron::kTensorMode, nanotron::kSumsOnly));
  if (mode != nanotron::kSumsOnly && mode != nanotron::kSplitsSequence) {
    read.Fail(*read.Find(nanotron::kTensorMode), fmt::format("is '{}'; give {} or {}", base::Printable(mode),
                                                             nanotron::kSumsOnly, nanotron::kSplitsSequence));
  }
  plan.sequence_parallel = plan.tp > 1 && mode == nanotron::kSplitsSequence;
  constexpr std::string_view kBeside = "parallelism.tp_linear_async_communication";
  if (read.Flag(kBeside) && plan.tp > 1) {
    read.NoteOf(*read.Find(kBeside),
                "is left out: a gather beside the product of the rank's own part is not modelled");
  }
  const bool gathers_again = read.Flag("parallelism.tp_recompute_allgather", true);
  if (plan.sequence_parallel)
    run.engine_settings.emplace_back(gathers_again ? "gathered_inputs=0" : "gathered_inputs=2");
}

}  // namespace

void ReadNanotron(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  ReadAxes(nanotron::kAxisSettings, read, run);
  plan.dp = read.Required(nanotron::kDp);
  read.RefuseAboveOne("parallelism.expert_parallel_size", "mixtures of experts are not modelled");
  read.RefuseAboveOne("parallelism.context_parallel_size", "context parallelism is not modelled");
  run.ranks = Times(Times(plan.tp, plan.pp), plan.dp);
  run.workload.seq_len = options.seq_len > 0 ? options.seq_len : read.Required(nanotron::kSeqLen);
  if (options.model) {
    run.model = *options.model;
  } else {
    ReadNanotronModel(options, read, run.model);
  }
  plan.micro_batch = read.Required(nanotron::kMicroBatch);
  run.workload.global_batch = Times(Times(plan.micro_batch, read.Whole(nanotron::kMicrobatches, 1)), plan.dp);
  ReadNanotronPrecision(read, run);
  ReadNanotronSchedule(read, run);
  ReadNanotronTensorMode(read, run);
  if (read.Flag(nanotron::kRecompute)) plan.recompute = Recompute::kFull;
  plan.zero_stage = read.Whole(nanotron::kZero, 0, 0, 1);
  plan.grad_overlap = plan.dp > 1;
  const std::string attention = read.Text(kNanotronAttention, "flash_attention_2");
  if (attention.find("ring") != std::string::npos) {
    read.Fail(*read.Find(kNanotronAttention),
              fmt::format("is {}: context parallelism is not modelled", base::Printable(attention)));
  }
}

}  // namespace autocfg
