#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "search/frameworks/megatron/megatron.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_options.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

// A file of command-line flags: one option with its values a line, `#` starts a comment.
class FlagFile {
 public:
  void Section(std::string_view title) { text_ += fmt::format("\n# {}\n", title); }
  // An option without a value, written if `on`.
  void Flag(std::string_view name, bool on = true) {
    if (on) text_ += fmt::format("{}\n", name);
  }
  template <typename T>
  void Option(std::string_view name, const T& value) {
    text_ += fmt::format("{} {}\n", name, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Sharded gradients and parameters: Megatron FSDP.
bool IsFsdp(const ParallelPlan& plan) { return plan.zero_stage >= 2; }

// Its window is the tokens before a token and those after it. Requires kinds that follow a pattern.
void WriteKinds(const LayerPattern& pattern, FlagFile& file) {
  if (pattern.sliding_window != 0)
    file.Option(megatron::kWindow, fmt::format("{},0", pattern.sliding_window - 1));
  if (pattern.sliding_window_pattern != 0)
    file.Option(megatron::kWindowPattern, pattern.sliding_window_pattern);
  if (pattern.no_rope_layer_interval != 0)
    file.Option(megatron::kNoRopeInterval, pattern.no_rope_layer_interval);
}

void WriteModel(const ExportedRun& run, FlagFile& file) {
  const ModelSpec& model = run.model;
  file.Section("model");
  file.Option(kMegatronNames.layers, model.layers);
  file.Option(kMegatronNames.hidden, model.hidden);
  file.Option(kMegatronNames.ffn_hidden, model.ffn_hidden);
  file.Option(kMegatronNames.heads, model.heads);
  if (model.kv_heads != model.heads) {
    file.Flag(megatron::kGroupedQueries);
    file.Option(kMegatronNames.kv_heads, model.kv_heads);
  }
  file.Option(kMegatronNames.head_dim, model.head_dim);
  file.Option(kMegatronNames.seq_len, run.workload.seq_len);
  file.Option(kMegatronNames.max_seq_len, std::max(model.max_seq_len, run.workload.seq_len));
  file.Flag(megatron::kSwiGlu, model.activation == Activation::kSwiGlu);
  file.Option(kMegatronNames.norm,
              model.norm == Norm::kRmsNorm ? kMegatronNames.rms_norm : kMegatronNames.layer_norm);
  file.Option(kMegatronNames.norm_eps, model.norm_eps);
  switch (model.position) {
    case Position::kLearned: file.Option(kMegatronNames.position, kLearnedPositions); break;
    case Position::kRope:
      file.Option(kMegatronNames.position, kRotaryPositions);
      file.Option(kMegatronNames.rotary_base, static_cast<std::int64_t>(model.rope_theta));
      file.Option(kMegatronNames.rotary_share, model.partial_rotary_factor);
      file.Flag(megatron::kRopeScaling, model.rope_scaling == RopeScaling::kLlama3);
      if (const double factor = model.rope_scaling_parameters.factor; factor != 0) {
        file.Option(HasLinearScaling(model) ? kMegatronNames.rotary_factor : megatron::kRopeScalingFactor,
                    factor);
      }
      break;
    case Position::kAlibi:
    case Position::kNone: file.Option(kMegatronNames.position, kNoPositions); break;
  }
  WriteKinds(*PatternOf(model), file);
  file.Flag(megatron::kNoBiases, CoreBiasesOf(model) != CoreBiases::kAll);
  file.Flag(megatron::kQkvBiases, CoreBiasesOf(model) == CoreBiases::kQkvOnly);
  file.Flag(kMegatronNames.qk_norm, model.qk_norm == QkNorm::kHead);
  file.Flag(megatron::kUntied, !model.tied_embeddings);
  file.Option(kMegatronNames.vocab_multiple, model.vocab_multiple);
  file.Option(kMegatronNames.init_std, model.init_std);
  file.Option(kMegatronNames.attention_dropout, AttentionDropout(model));
  file.Option(kMegatronNames.hidden_dropout, model.dropout);
}

// Writes the modules of a selective recomputation, unless they are the default, core_attn alone.
void WriteModules(const ParallelPlan& plan, FlagFile& file, std::vector<std::string>& translated) {
  if (plan.recompute_parts == LayerOptions().recompute_parts) return;
  std::vector<std::string_view> names;
  for (const megatron::RecomputeModule& module : megatron::kModules) {
    if (plan.recompute_parts.Has(module.part)) names.push_back(module.name);
  }
  file.Option(megatron::kRecomputeModules, fmt::format("{}", fmt::join(names, " ")));
  if (plan.recompute_parts.Has(LayerPart::kMlp)) {
    translated.push_back(fmt::format("recompute={} is {} {}; mlp computes {}", RecomputeText(plan),
                                     megatron::kRecomputeModules, fmt::join(names, " "),
                                     megatron::kBeyondMlp));
  }
}

void WriteParallelism(const ExportedRun& run, FlagFile& file, std::vector<std::string>& translated) {
  const ParallelPlan& plan = run.plan;
  file.Section(fmt::format("parallelism; the data axis is what is left of the ranks: {}", BatchRanks(plan)));
  ForEachAxis(kMegatronNames.axes, plan,
              [&](std::string_view setting, std::int64_t size) { file.Option(setting, size); });
  file.Flag(kMegatronNames.sp, SplitsSequence(plan));
  if (plan.split == SplitMode::kExplicit && SplitsDepth(plan)) {
    const std::string layout = PipelineLayoutOf(run);
    file.Option(megatron::kLayout, layout);
    translated.push_back(fmt::format("the split is --pipeline-model-parallel-layout {}", layout));
  } else if (plan.virtual_stages > 1) {
    file.Option(megatron::kLayersPerStage, run.model.layers / StageCount(plan));
  }
  if (plan.virtual_stages > 1 && !plan.p2p_overlap) file.Flag(megatron::kPlainMessages);
  if (plan.tp_overlap > 1) {
    file.Flag(kMegatronNames.tp_overlap);
    translated.push_back(
        fmt::format("tp_overlap={} is --tp-comm-overlap, which chooses the chunks itself", plan.tp_overlap));
  }
  file.Section("batch");
  file.Option(kMegatronNames.micro_batch, plan.micro_batch);
  file.Option(kMegatronNames.global_batch, run.workload.global_batch);
  file.Section("recomputation and attention");
  if (plan.recompute == Recompute::kFull) {
    file.Option(kMegatronNames.recompute, kFullRecompute);
    if (plan.recompute_layers == 0) {
      file.Option(kMegatronNames.recompute_method, kUniformRecompute);
      file.Option(kMegatronNames.recompute_layers, run.cluster.engine.recompute_chunk);
    } else {
      file.Option(kMegatronNames.recompute_method, kBlockRecompute);
      file.Option(kMegatronNames.recompute_layers, plan.recompute_layers);
      translated.push_back(fmt::format(
          "recompute=full:{0} is --recompute-method block --recompute-num-layers {0}, of each virtual stage",
          plan.recompute_layers));
    }
  } else if (plan.recompute == Recompute::kSelective) {
    file.Option(kMegatronNames.recompute, kSelectiveRecompute);
    WriteModules(plan, file, translated);
  }
  file.Option(kMegatronNames.attention, IsUnfused(plan) ? kUnfusedAttention : kFlashAttention);
}

bool IsPrecisionAware(const Precision& types) {
  return types.moments != DType::kF32 || types.master == DType::kF16;
}

void WriteStateTypes(const Workload& workload, FlagFile& file) {
  const Precision& types = workload.precision;
  const bool aware = IsPrecisionAware(types);
  file.Flag(megatron::kNarrowGradients, !aware && types.gradients == DType::kBF16);
  file.Flag(megatron::kWideGradients, types.compute == DType::kF16 && types.gradients == DType::kF32);
  if (!aware) return;
  file.Flag(megatron::kPrecisionAware);
  file.Option(megatron::kGradientType, Name(types.gradients));
  if (types.master) file.Option(megatron::kMasterType, Name(*types.master));
  file.Option(megatron::kFirstMomentType, Name(types.moments));
  file.Option(megatron::kSecondMomentType, Name(types.moments));
}

// What the framework lacks of the types of states, as "grads=bf16"; empty if nothing.
std::vector<std::string> UnknownStates(const ExportedRun& run) {
  const Precision& types = run.workload.precision;
  std::vector<std::string> lacks;
  if (types.compute == DType::kF32 && types.gradients != DType::kF32)
    lacks.emplace_back("grads=bf16 in fp32");
  if (types.compute != DType::kF32 && types.master != DType::kF32 && types.master != DType::kF16)
    lacks.emplace_back(types.master ? "master=bf16" : "master=none");
  if (types.moments == DType::kI8) lacks.emplace_back("moments=int8");
  if (IsPrecisionAware(types) && run.plan.zero_stage == 0)
    lacks.emplace_back("narrow states without its distributed optimizer, zero=1");
  if (IsPrecisionAware(types) && types.gradients == DType::kF16)
    lacks.emplace_back("grads=fp16 with narrow states");
  const OptimizerKind kind = run.workload.optimizer.kind;
  if (kind != OptimizerKind::kAdamW && kind != OptimizerKind::kSgd)
    lacks.push_back(fmt::format("optimizer={} (it has adam and sgd)", Name(kind)));
  if (kind == OptimizerKind::kSgd && run.plan.zero_stage > 0)
    lacks.push_back(
        fmt::format("optimizer=sgd with zero={} (its sharded optimizer is adam)", run.plan.zero_stage));
  if (kind == OptimizerKind::kSgd && IsPrecisionAware(types))
    lacks.emplace_back("optimizer=sgd with narrow states");
  return lacks;
}

void WriteTraining(const ExportedRun& run, FlagFile& file) {
  const ParallelPlan& plan = run.plan;
  const std::string_view precision = BaseName(run.workload.precision);
  file.Section("precision and optimizer");
  file.Flag(megatron::kBf16, precision == "bf16");
  file.Flag(megatron::kFp16, precision == "fp16");
  WriteStateTypes(run.workload, file);
  if (IsFsdp(plan)) {
    file.Flag(megatron::kFsdp);
    file.Option(megatron::kSharding,
                plan.zero_stage == 2 ? megatron::kShardsGradients : megatron::kShardsParameters);
    file.Option("--ckpt-format", "fsdp_dtensor");
    // Its guide requires both: the optimizer of shards, and gradients outside of the fused kernel.
    file.Flag(megatron::kShardsStates);
    file.Flag("--no-gradient-accumulation-fusion");
  } else {
    file.Flag(megatron::kShardsStates, plan.zero_stage > 0);
  }
  if (ShardsStates(plan) && StateReplicas(plan) > 1) file.Option(megatron::kInstances, StateReplicas(plan));
  file.Flag(megatron::kGradOverlap, plan.grad_overlap);
  file.Flag(megatron::kParamOverlap, plan.param_overlap);
  const Optimizer& optimizer = run.workload.optimizer;
  file.Option(megatron::kOptimizer, optimizer.kind == OptimizerKind::kSgd ? "sgd" : "adam");
  if (optimizer.kind == OptimizerKind::kSgd) file.Option(megatron::kMomentum, optimizer.momentum);
  file.Option("--adam-beta1", 0.9);
  file.Option("--adam-beta2", 0.95);
  file.Option("--adam-eps", "1e-8");
  file.Option("--weight-decay", 0.1);
  file.Option("--clip-grad", 1.0);
  file.Section("set these as your training needs them");
  file.Option("--lr", "3e-4");
  file.Option("--min-lr", "3e-5");
  file.Option("--lr-decay-style", "cosine");
  file.Option("--train-iters", run.tokens > 0 ? StepsOf(run) : 1000);
  file.Option("--log-interval", 1);
  file.Flag("--log-throughput");
  file.Section("data: replace by your tokenizer and --data-path");
  file.Flag("--mock-data");
  file.Option(megatron::kTokenizer, megatron::kNullTokenizer);
  // The tokenizer adds one id, for the end of a document.
  file.Option(megatron::kVocab, run.model.vocab - 1);
}

}  // namespace

std::string PipelineLayoutOf(const ExportedRun& run) {
  std::string text;
  const std::int64_t stages = StageCount(run.plan);
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    if (stage > 0) text += '|';
    if (IsFirstStage(stage)) text += 'E';
    if (const std::int64_t layers = StageLayerCount(run.model, run.plan, stage); layers > 0)
      text += fmt::format("t*{}", layers);
    if (IsLastStage(run.plan, stage)) text += 'L';
  }
  return text;
}

bool HasCoreKinds(const ModelSpec& model) {
  const std::optional<LayerPattern> pattern = PatternOf(model);
  return pattern &&
         (pattern->no_rope_layer_interval == 0 || model.layers % pattern->no_rope_layer_interval == 0);
}

void CheckMegatron(const ExportedRun& run, Refusals& refuse) {
  const ModelSpec& model = run.model;
  CheckCoreModel(model, refuse);
  refuse.UnlessModel(model.activation != Activation::kRelu && model.activation != Activation::kGeGlu &&
                         model.activation != Activation::kSquaredRelu,
                     fmt::format("activation={}", Name(model.activation)));
  refuse.UnlessModel(HasCoreKinds(model),
                     "layer_kinds (it has one window, for all layers or all but every n-th, and leaves out "
                     "the rotary positions of every n-th layer, n a divisor of layers)");
  const RopeScalingParameters& scaling = model.rope_scaling_parameters;
  refuse.UnlessModel(
      model.rope_scaling == RopeScaling::kNone ||
          (HasLinearScaling(model) && scaling.factor == std::floor(scaling.factor)) ||
          (model.rope_scaling == RopeScaling::kLlama3 &&
           (NamesRopeScalingAlone(model) || scaling == Llama3Scaling(scaling.factor))),
      fmt::format("rope_scaling={} (it has llama3, with the parameters of Llama 3.1 but for the factor, and "
                  "linear by whole factors)",
                  Name(model.rope_scaling)));
  refuse.UnlessBase(run, {"fp32", "bf16", "fp16"}, "fp32, bf16 and fp16");
  for (const std::string& state : UnknownStates(run)) refuse.State(state);
}

ExportedFile WriteMegatron(const ExportedRun& run) {
  FlagFile file;
  ExportedFile exported;
  WriteModel(run, file);
  WriteParallelism(run, file, exported.translated);
  WriteTraining(run, file);
  exported.launch = {.program = "pretrain_gpt.py", .arguments = "$(grep -v '^#' {file})"};
  // Collectives and computes must be issued in one order; before Blackwell, one queue gives it.
  if (SplitsLayers(run.plan) && !IsFsdp(run.plan))
    exported.launch.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  exported.text =
      HeaderOf(fmt::format("Megatron-LM ({}), pretrain_gpt.py", kMegatronVersion), run, exported) +
      file.text();
  return exported;
}

}  // namespace autocfg
