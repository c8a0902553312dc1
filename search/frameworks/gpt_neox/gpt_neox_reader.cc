// gpt-neox's YAML. Defaults: megatron/neox_arguments (neox_args.py, deepspeed_args.py, arguments.py) of the
// sources that gpt_neox.h names.
#include <algorithm>
#include <array>
#include <utility>

#include "base/numbers.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/gpt_neox/gpt_neox.h"
#include "search/frameworks/settings/tokenizers.h"

namespace autocfg {
namespace {

Activation ReadGptNeoxActivation(SettingReader& read) {
  static constexpr std::array<std::pair<std::string_view, Activation>, 4> kNames = {
      {{"gelu", Activation::kGeluErf},
       {"relu", Activation::kRelu},
       {"swiglu", Activation::kSwiGlu},
       {"geglu", Activation::kGeGlu}}};
  const bool fused = read.Flag("bias_gelu_fusion");  // in the tanh form
  const std::string name = read.Text("activation", "gelu");
  const auto known = std::ranges::find(kNames, name, &std::pair<std::string_view, Activation>::first);
  if (known == kNames.end()) {
    read.Fail(*read.Find("activation"),
              fmt::format("is '{}', which is not modelled; gelu, relu, swiglu and geglu can be read",
                          base::Printable(name)));
    return Activation::kGelu;
  }
  return fused && known->second == Activation::kGeluErf ? Activation::kGelu : known->second;
}

// Gated layers are narrower, so that they have as many parameters (megatron/model/transformer.py).
std::int64_t ReadGptNeoxFfn(SettingReader& read, const ModelSpec& model) {
  const double factor = read.Real("expansion_factor", 4);
  const double wide = std::min(factor * static_cast<double>(model.hidden), static_cast<double>(kMostSize));
  const std::int64_t said = read.Whole("intermediate_size", static_cast<std::int64_t>(wide));
  const std::int64_t multiple = read.Whole("mlp_multiple_of", 1);
  const std::int64_t width = IsGated(model.activation) ? said * 2 / 3 / 2 : said;
  return (width + multiple - 1) / multiple * multiple;
}

void ReadGptNeoxPositions(SettingReader& read, ModelSpec& model) {
  const std::string position = read.Text("pos_emb", "learned");
  model.rope_theta = read.Real("rotary_emb_base", 10000);
  const double share = read.Real("rotary_pct", 1);
  if (position == "rotary") {
    model.position = Position::kRope;
    model.partial_rotary_factor = share;
  } else if (position == "learned" || position == "alibi" || position == "none") {
    model.position = position == "learned" ? Position::kLearned
                     : position == "alibi" ? Position::kAlibi
                                           : Position::kNone;
  } else {
    read.Fail(*read.Find("pos_emb"),
              fmt::format("is '{}', which is not modelled; rotary, learned, alibi and none can be read",
                          base::Printable(position)));
  }
}

void ReadGptNeoxVocab(const ReadingOptions& options, SettingReader& read, ModelSpec& model) {
  model.vocab_multiple = read.Whole("make_vocab_size_divisible_by", 128);
  model.vocab = options.vocab;
  if (model.vocab > 0) return;
  const std::string tokenizer = read.Text("tokenizer_type", "GPT2BPETokenizer");
  const Setting* file = read.Find("vocab_file");
  if (file != nullptr && file->unknown.empty()) model.vocab = TokensOfTokenizer(file->values);
  if (file != nullptr && file->values.size() == 1 &&
      file->values.front().find("20B_tokenizer") != std::string::npos)
    model.vocab = 50277;
  if (model.vocab > 0) return;
  if (tokenizer == "GPT2BPETokenizer") {
    model.vocab = 50257;
    if (!read.Has("tokenizer_type"))
      read.Note("tokenizer_type is missing: the framework then takes GPT2BPETokenizer, of 50257 tokens");
  } else {
    model.vocab = 1;
    read.Fail(fmt::format("the file does not say how many tokens {} has; give --vocab",
                          base::Printable(tokenizer)));
  }
}

void ReadGptNeoxModel(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ModelSpec& model = run.model;
  model.layers = read.Required("num_layers");
  model.hidden = read.Required("hidden_size");
  model.heads = read.Required("num_attention_heads");
  model.kv_heads = read.Whole("num_kv_heads", model.heads);
  model.max_seq_len = read.Whole("max_position_embeddings", run.workload.seq_len);
  const std::string norm = read.Text("norm", "layernorm");
  const bool rms = norm.ends_with("rmsnorm");
  model.norm = rms ? Norm::kRmsNorm : Norm::kLayerNorm;
  const double rms_eps = read.Real("rms_norm_epsilon", 1e-8), eps = read.Real("layernorm_epsilon", 1e-5);
  model.norm_eps = rms ? rms_eps : eps;
  model.qk_norm = read.Flag("use_qk_layernorm") ? QkNorm::kHead : QkNorm::kNone;
  ReadGptNeoxPositions(read, model);
  model.activation = ReadGptNeoxActivation(read);
  model.ffn_hidden = ReadGptNeoxFfn(read, model);
  model.tied_embeddings = !read.Flag("no_weight_tying");
  model.shared_norm = read.Flag("gpt_j_tied");
  model.parallel_residual = read.Flag("gpt_j_residual");
  if (!model.parallel_residual) model.shared_norm = false;
  model.qkv_bias = model.attention_out_bias = read.Flag("use_bias_in_attn_linear", true);
  model.mlp_bias = read.Flag("use_bias_in_mlp", true);
  model.init_std = read.Real("init_method_std", 0.02);
  model.dropout = read.Real("hidden_dropout", 0);
  if (const double share = read.Real("attention_dropout", 0); share != model.dropout)
    model.attention_dropout = share;
  if (const std::int64_t window = read.Whole("sliding_window_width", 0, 0); window > 0 && read.ok()) {
    if (const absl::Status status = ApplyPattern({.sliding_window = window}, model); !status.ok())
      read.Fail(std::string(status.message()));
  }
  ReadGptNeoxVocab(options, read, model);
}

void ReadGptNeoxPrecision(SettingReader& read, RunDraft& run) {
  const std::string said = read.Text("precision");
  const bool half = read.Flag("fp16.enabled") || read.Flag("fp16.fp16");
  const bool brain = read.Flag("bf16.enabled") || read.Flag("bf16.bf16") || said == "bfloat16" ||
                     read.Flag("deepspeed_extra_args.bf16.enabled") || read.Text("fp16.type") == "bfloat16";
  if (!said.empty() && said != "bfloat16" && said != "fp16" && said != "fp32") {
    read.Fail(*read.Find("precision"),
              fmt::format("is '{}'; give bfloat16, fp16 or fp32", base::Printable(said)));
  }
  run.workload.precision = *ParsePrecision(brain ? "bf16" : half || said == "fp16" ? "fp16" : "fp32");
  ReadOptimizer({.name = "optimizer.type", .momentum = "optimizer.params.momentum"}, read, run);
}

// A run of gpt-neox is often several files, each with some of the settings.
std::string MissingText(std::string_view name, std::string_view option) {
  return fmt::format("{} is missing; give the run's other files behind this one, or {}", name, option);
}

// The file's, else that of --plan.
std::int64_t ReadGptNeoxMicroBatch(const ReadingOptions& options, SettingReader& read) {
  const auto said = options.plan.find("mbs");
  const std::int64_t otherwise =
      said == options.plan.end() ? 0 : base::ParseNumber<std::int64_t>(said->second, 1).value_or(0);
  return read.Whole(neox::kMicroBatch, otherwise);
}

// Two of the three sizes give the third.
void ReadGptNeoxBatch(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const std::int64_t global = read.Whole(neox::kGlobalBatch, 0), micro = ReadGptNeoxMicroBatch(options, read),
                     steps = read.Whole(neox::kMicrobatches, 1);
  const std::int64_t nodes = read.Whole("num_nodes", 0, -1), of_node = read.Whole("num_gpus", 0);
  if (!read.ok()) return;
  run.ranks = options.ranks;
  if (run.ranks == 0) run.ranks = read.Whole("global_num_gpus", 0);
  if (run.ranks == 0 && nodes > 0 && of_node > 0) {
    run.ranks = nodes * of_node;
    run.ranks_per_node = of_node;
  }
  if (run.ranks == 0 && global > 0 && micro > 0 && read.Has(neox::kMicrobatches) &&
      global % (micro * steps) == 0)
    run.ranks = Times(Times(plan.tp, plan.pp), global / (micro * steps));
  if (run.ranks == 0) {
    read.Fail("the file does not say how many ranks train; give --ranks or --cluster");
    return;
  }
  SetDataRanks(neox::kAxisSettings, read, run);
  if (micro == 0 && global == 0)
    read.FailMissing(neox::kMicroBatch, MissingText(neox::kMicroBatch, "--plan mbs=1"));
  if (!read.ok()) return;
  plan.micro_batch = micro > 0 ? micro : std::max<std::int64_t>(1, global / plan.dp / steps);
  run.workload.global_batch = global > 0 ? global : Times(Times(micro, steps), plan.dp);
  CheckBatch(neox::kGlobalBatch, read, run);
}

void ReadGptNeoxStates(bool engine_of_pipelines, SettingReader& read, ParallelPlan& plan) {
  plan.zero_stage = read.Whole(neox::kStage, 0, 0, 3);
  const bool overlaps = read.Flag("zero_optimization.overlap_comm", plan.zero_stage == 3);
  plan.grad_overlap = overlaps && plan.zero_stage >= 2 && !engine_of_pipelines;
  plan.param_overlap =
      plan.zero_stage == 3 && read.Whole("zero_optimization.stage3_prefetch_bucket_size", 50'000'000, 0) > 0;
  if (plan.pp > 1 && plan.zero_stage > 1) {
    read.Fail(*read.Find(neox::kStage), fmt::format("is {}, and a pipeline takes 0 or 1; change it, or {}",
                                                    plan.zero_stage, neox::kAxisSettings[1].setting));
  }
}

// Layers of attention of one kind: flash, which stores no scores, or global.
void ReadGptNeoxAttention(SettingReader& read, RunDraft& run) {
  bool flash = read.Flag("te_mha"), other = false;
  if (const Setting* kinds = read.Find(neox::kAttention)) {
    for (const std::string& value : kinds->values) {
      flash = flash || value == "flash";
      other = other || value == "global";
    }
    if (flash && other)
      read.Fail(*kinds, "mixes flash and global layers, which is not modelled; give one kind");
  }
  run.plan.attention = flash ? Attention::kFused : Attention::kUnfused;
  if (!flash && BaseName(run.workload.precision) != "fp32" && !read.Has(neox::kAttention))
    read.Note(fmt::format("{} is missing: the framework then stores scores, read as attention=unfused",
                          neox::kAttention));
}

}  // namespace

void ReadGptNeox(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const std::int64_t stages = read.Whole(neox::kAxisSettings[1].setting, 0, 0);
  plan.pp = std::max<std::int64_t>(1, stages);
  plan.tp = std::max<std::int64_t>(1, read.Whole(neox::kAxisSettings[0].setting, 1, 0));
  run.workload.seq_len = options.seq_len > 0 ? options.seq_len
                         : options.model     ? read.Whole("seq_length", options.model->max_seq_len)
                                             : read.Whole("seq_length", 0);
  if (run.workload.seq_len == 0) {
    // The model's sizes stand beside it.
    const bool has_model = read.Has("num_layers");
    read.FailMissing("seq_length", MissingText("seq_length", has_model ? "--seq-len" : "--model"));
    return;
  }
  if (options.model) {
    run.model = *options.model;
  } else if (!read.Has("num_layers")) {
    read.FailMissing("num_layers", MissingText("num_layers", "--model"));
    return;
  } else {
    ReadGptNeoxModel(options, read, run);
  }
  ReadGptNeoxPrecision(read, run);
  ReadGptNeoxBatch(options, read, run);
  if (!read.ok()) return;
  ReadGptNeoxStates(stages >= 1, read, plan);
  const DType compute = run.workload.precision.compute;
  ReadDeepSpeedBuckets(read, run);
  ReadDeepSpeedSums(compute == DType::kBF16, compute == DType::kF16, read, run);
  plan.sequence_parallel = read.Flag(neox::kSequenceParallel) && plan.tp > 1;
  plan.scatter_gather = plan.tp > 1 && plan.pp > 1 && !plan.sequence_parallel;
  ReadGptNeoxAttention(read, run);
  if (read.Flag(neox::kRecompute)) plan.recompute = Recompute::kFull;
  if (const std::int64_t chunk = read.Whole("checkpoint_num_layers", 1); chunk > 1)
    run.engine_settings.push_back(fmt::format("recompute_chunk={}", chunk));
  if (constexpr std::string_view kParts = "partition_activations"; read.Flag(kParts) && plan.tp > 1)
    read.NoteOf(*read.Find(kParts),
                "is left out: each tensor rank is counted with the whole inputs of layers");
}

}  // namespace autocfg
