#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/megatron_bridge/megatron_bridge.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_options.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

// Overrides, one a line. `#` starts a comment.
class OverrideFile {
 public:
  void Section(std::string_view title) { text_ += fmt::format("\n# {}\n", title); }
  template <typename T>
  void Set(std::string_view name, const T& value) {
    text_ += fmt::format("{}={}\n", name, value);
  }
  void Switch(std::string_view name, bool on) { Set(name, on ? "true" : "false"); }
  // Recipes may say it, so that it is written even if the plan has none.
  void SetIf(bool given, std::string_view name, std::int64_t value) {
    Set(name, given ? fmt::to_string(value) : "null");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool IsBridgeFsdp(const ParallelPlan& plan) { return plan.zero_stage >= 2; }

// Returns the recipe of mixed precision; empty if there is none.
std::string_view PrecisionRecipe(const Precision& precision) {
  for (const auto& [name, recipe] : bridge::kPrecisions) {
    if (precision == *ParsePrecision(name)) return recipe;
  }
  return {};
}

std::string_view ActivationOf(Activation activation) {
  switch (activation) {
    case Activation::kSwiGlu: return "silu";
    case Activation::kRelu: return "relu";
    case Activation::kSquaredRelu: return "squared_relu";
    case Activation::kGeGlu:
    case Activation::kGelu:
    case Activation::kGeluErf: break;
  }
  return "gelu";
}

void WriteActivation(const ModelSpec& model, OverrideFile& file) {
  const bool gated = model.activation == Activation::kSwiGlu || model.activation == Activation::kGeGlu;
  file.Set(bridge::kActivation, ActivationOf(model.activation));
  file.Switch(bridge::kGated, gated);
  file.Switch(bridge::kFusedActivation, gated || model.activation == Activation::kGelu);
}

void WritePositions(const ModelSpec& model, OverrideFile& file) {
  if (model.position != Position::kRope) {
    file.Set(kBridgeNames.position, model.position == Position::kLearned ? kLearnedPositions : kNoPositions);
    return;
  }
  const RopeScalingParameters& scaling = model.rope_scaling_parameters;
  const bool llama3 = model.rope_scaling == RopeScaling::kLlama3;
  file.Set(kBridgeNames.position, kRotaryPositions);
  file.Set(kBridgeNames.rotary_base, static_cast<std::int64_t>(model.rope_theta));
  file.Set(kBridgeNames.rotary_share, model.partial_rotary_factor);
  file.Switch(bridge::kRopeScaling, llama3);
  // Its default is 1, which scales nothing.
  if (llama3) file.Set(bridge::kRopeScalingFactor, NamesRopeScalingAlone(model) ? 8 : scaling.factor);
  if (HasLinearScaling(model)) file.Set(kBridgeNames.rotary_factor, scaling.factor);
}

// Its window is the tokens before a token and those after it.
void WriteBridgeKinds(const LayerPattern& pattern, OverrideFile& file) {
  file.Set(bridge::kWindow,
           pattern.sliding_window != 0 ? fmt::format("[{},0]", pattern.sliding_window - 1) : "null");
  file.SetIf(pattern.sliding_window_pattern != 0, bridge::kWindowPattern, pattern.sliding_window_pattern);
  file.SetIf(pattern.no_rope_layer_interval != 0, bridge::kNoRopeInterval, pattern.no_rope_layer_interval);
}

void WriteBridgeModel(const ExportedRun& run, OverrideFile& file, std::vector<std::string>& translated) {
  const ModelSpec& model = run.model;
  file.Section("model");
  file.Set(kBridgeNames.layers, model.layers);
  file.Set(kBridgeNames.hidden, model.hidden);
  file.Set(kBridgeNames.ffn_hidden, model.ffn_hidden);
  file.Set(kBridgeNames.heads, model.heads);
  file.Set(kBridgeNames.kv_heads, model.kv_heads);
  file.Set(kBridgeNames.head_dim, model.head_dim);
  file.Set(kBridgeNames.max_seq_len, run.workload.seq_len);
  file.Set(kBridgeNames.seq_len, run.workload.seq_len);
  if (model.position == Position::kLearned && model.max_seq_len != run.workload.seq_len) {
    translated.push_back(fmt::format("max_seq_len={} is {}: it has a position for each token of a sequence",
                                     model.max_seq_len, run.workload.seq_len));
  }
  WriteActivation(model, file);
  file.Set(kBridgeNames.norm, model.norm == Norm::kRmsNorm ? kBridgeNames.rms_norm : kBridgeNames.layer_norm);
  file.Set(kBridgeNames.norm_eps, model.norm_eps);
  WritePositions(model, file);
  WriteBridgeKinds(*PatternOf(model), file);
  file.Switch(bridge::kBiases, CoreBiasesOf(model) == CoreBiases::kAll);
  file.Switch(bridge::kQkvBiases, CoreBiasesOf(model) == CoreBiases::kQkvOnly);
  file.Switch(bridge::kFusedLoss, run.cluster.engine.logit_bytes >= kFusedLogitBytes);  // as predicted
  file.Switch(kBridgeNames.qk_norm, model.qk_norm == QkNorm::kHead);
  file.Switch(bridge::kTied, model.tied_embeddings);
  file.Set(kBridgeNames.vocab_multiple, model.vocab_multiple);
  file.Set(bridge::kPaddedVocab, PaddedVocab(model, run.plan.tp));
  file.Set(kBridgeNames.init_std, model.init_std);
  file.Set(kBridgeNames.attention_dropout, AttentionDropout(model));
  file.Set(kBridgeNames.hidden_dropout, model.dropout);
}

// Empty if the stages are equal.
std::string LayoutIfUnequal(const ExportedRun& run) {
  return run.plan.split == SplitMode::kExplicit && SplitsDepth(run.plan) ? PipelineLayoutOf(run) : "";
}

void WriteBridgePlan(const ExportedRun& run, OverrideFile& file, std::vector<std::string>& translated) {
  const ParallelPlan& plan = run.plan;
  file.Section(fmt::format("parallelism; the data axis is what is left of the ranks: {}", BatchRanks(plan)));
  ForEachAxis(kBridgeNames.axes, plan,
              [&](std::string_view setting, std::int64_t size) { file.Set(setting, size); });
  file.Set(kBridgeNames.context_parallel, 1);
  file.SetIf(plan.virtual_stages > 1, bridge::kVirtualStages, plan.virtual_stages);
  const std::string layout = LayoutIfUnequal(run);
  file.Set(bridge::kLayout, layout.empty() ? "null" : fmt::format("'{}'", layout));
  if (!layout.empty()) translated.push_back(fmt::format("the split is {} {}", bridge::kLayout, layout));
  file.Switch(kBridgeNames.sp, SplitsSequence(plan));
  file.Set("comm_overlap", "null");  // it would choose the overlaps itself
  file.Switch(kBridgeNames.tp_overlap, plan.tp_overlap > 1);
  file.Switch(bridge::kMessageOverlap, plan.p2p_overlap);
  file.Switch("model.batch_p2p_comm", !plan.p2p_overlap);
  if (plan.tp_overlap > 1) {
    translated.push_back(fmt::format("tp_overlap={} is {}, which chooses the chunks itself", plan.tp_overlap,
                                     kBridgeNames.tp_overlap));
  }
  file.Section("batch");
  file.Set(kBridgeNames.micro_batch, plan.micro_batch);
  file.Set(kBridgeNames.global_batch, run.workload.global_batch);
}

void WriteBridgeRecompute(const ExportedRun& run, OverrideFile& file, std::vector<std::string>& translated) {
  const ParallelPlan& plan = run.plan;
  const bool full = plan.recompute == Recompute::kFull, selective = plan.recompute == Recompute::kSelective;
  file.Section("recomputation");
  file.Set(kBridgeNames.recompute, full ? kFullRecompute : selective ? kSelectiveRecompute : "null");
  file.Set(kBridgeNames.recompute_method, !full                        ? "null"
                                          : plan.recompute_layers == 0 ? kUniformRecompute
                                                                       : kBlockRecompute);
  file.SetIf(full, kBridgeNames.recompute_layers,
             plan.recompute_layers == 0 ? run.cluster.engine.recompute_chunk : plan.recompute_layers);
  std::vector<std::string_view> names;
  for (const megatron::RecomputeModule& module : megatron::kModules) {
    if (selective && plan.recompute_parts.Has(module.part)) names.push_back(module.name);
  }
  file.Set(bridge::kRecomputeModules, names.empty() ? "null" : fmt::format("[{}]", fmt::join(names, ",")));
  if (plan.recompute_layers > 0 && full) {
    translated.push_back(fmt::format("recompute=full:{} is {}={}, of each virtual stage",
                                     plan.recompute_layers, kBridgeNames.recompute_method, kBlockRecompute));
  }
  if (selective && plan.recompute_parts.Has(LayerPart::kMlp)) {
    translated.push_back(fmt::format("recompute={} is {} {}; mlp computes {}", RecomputeText(plan),
                                     bridge::kRecomputeModules, fmt::join(names, " "), megatron::kBeyondMlp));
  }
}

void WriteBridgeStates(const ExportedRun& run, OverrideFile& file) {
  const ParallelPlan& plan = run.plan;
  const bool fsdp = IsBridgeFsdp(plan);
  file.Section("precision and optimizer");
  file.Set(bridge::kPrecision, PrecisionRecipe(run.workload.precision));
  // Both, or one switches the other on.
  file.Switch(bridge::kShardsStates, plan.zero_stage > 0);
  file.Switch("optimizer.use_distributed_optimizer", plan.zero_stage > 0);
  file.Set(bridge::kInstances, ShardsStates(plan) ? StateReplicas(plan) : 1);
  file.Switch(bridge::kGradOverlap, plan.grad_overlap);
  file.Switch(bridge::kParamOverlap, plan.param_overlap);
  file.Switch("optimizer.overlap_param_gather", plan.param_overlap);
  file.Switch(bridge::kFsdp, fsdp);
  if (fsdp) {
    file.Set(bridge::kSharding,
             plan.zero_stage == 2 ? megatron::kShardsGradients : megatron::kShardsParameters);
    file.Set("checkpoint.ckpt_format", "fsdp_dtensor");
    file.Switch("model.gradient_accumulation_fusion", false);
  }
  file.Set(bridge::kOptimizer, "adam");
}

void WriteBridgeTraining(const ExportedRun& run, OverrideFile& file) {
  file.Section("set these as your training needs them");
  file.Set("optimizer.lr", "3e-4");
  file.Set("optimizer.min_lr", "3e-5");
  file.Set("train.train_iters", run.tokens > 0 ? StepsOf(run) : 1000);
  file.Set("logger.log_interval", 1);
  file.Set("checkpoint.save", "null");
  file.Section("data: replace by your tokenizer, and --dataset mock by your data");
  file.Set("tokenizer.tokenizer_type", megatron::kNullTokenizer);
  // Some releases add an id, for the end of a document. The model must have at least as many as the
  // tokenizer.
  file.Set("tokenizer.vocab_size", run.model.vocab - 1);
}

}  // namespace

void CheckMegatronBridge(const ExportedRun& run, Refusals& refuse) {
  const ModelSpec& model = run.model;
  CheckCoreModel(model, refuse);
  refuse.UnlessModel(HasCoreKinds(model),
                     "layer_kinds (it has one window, for all layers or all but every n-th, and leaves out "
                     "the rotary positions of every n-th layer, n a divisor of layers)");
  const bool llama3 = model.rope_scaling == RopeScaling::kLlama3 &&
                      (NamesRopeScalingAlone(model) ||
                       model.rope_scaling_parameters == Llama3Scaling(model.rope_scaling_parameters.factor));
  refuse.UnlessModel(
      model.rope_scaling == RopeScaling::kNone || HasLinearScaling(model) || llama3,
      fmt::format("rope_scaling={} (it has llama3, with the parameters of Llama 3.1 but for the factor, and "
                  "linear)",
                  Name(model.rope_scaling)));
  if (PrecisionRecipe(run.workload.precision).empty()) {
    std::vector<std::string_view> has;
    has.reserve(bridge::kPrecisions.size());
    for (const auto& [name, recipe] : bridge::kPrecisions) has.push_back(name);
    refuse.State(fmt::format("precision={} (its recipes are {})", PrecisionText(run.workload.precision),
                             fmt::join(has, ", ")));
  }
  if (run.workload.optimizer != Optimizer{}) {
    refuse.State(fmt::format("optimizer={} (the file has adamw)", OptimizerText(run.workload.optimizer)));
  }
}

ExportedFile WriteMegatronBridge(const ExportedRun& run) {
  OverrideFile file;
  ExportedFile exported;
  WriteBridgeModel(run, file, exported.translated);
  WriteBridgePlan(run, file, exported.translated);
  WriteBridgeRecompute(run, file, exported.translated);
  WriteBridgeStates(run, file);
  WriteBridgeTraining(run, file);
  exported.launch = {.program = "scripts/training/run_recipe.py",
                     .arguments =
                         "--recipe vanilla_gpt_pretrain_config --mode pretrain --dataset mock "
                         "$(grep -v '^#' {file})"};
  if (SplitsLayers(run.plan) && !IsBridgeFsdp(run.plan))
    exported.launch.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  exported.text =
      HeaderOf(fmt::format("Megatron-Bridge ({}), run_recipe.py", kMegatronBridgeVersion), run, exported) +
      file.text();
  return exported;
}

}  // namespace autocfg
