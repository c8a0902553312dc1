// Overrides of Megatron-Bridge. What they do not say is left to its recipe, so that a file needs the sizes of
// the model and of the batch. Defaults: those of its recipe vanilla_gpt_pretrain_config.
#include <algorithm>
#include <string>

#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/megatron_bridge/megatron_bridge.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

void ReadBridgePrecision(SettingReader& read, RunDraft& run) {
  std::string text = read.Text(bridge::kPrecision, "bf16_mixed");
  std::ranges::replace(text, '-', '_');
  for (const auto& [name, recipe] : bridge::kPrecisions) {
    if (text == recipe) run.workload.precision = *ParsePrecision(name);
    if (text == recipe) return;
  }
  run.workload.precision = *ParsePrecision("bf16");
  if (const Setting* setting = read.Find(bridge::kPrecision)) {
    read.Fail(*setting, fmt::format("is '{}', which is not modelled; give bf16_mixed or another recipe that "
                                    "autocfg export --to {} writes",
                                    base::Printable(text), kMegatronBridge));
  }
}

void ReadBridgeActivation(SettingReader& read, ModelSpec& model) {
  const std::string text = read.Text(bridge::kActivation, "gelu");
  const bool gated = read.Flag(bridge::kGated), fused = read.Flag(bridge::kFusedActivation);
  if (text == "silu" && gated) {
    model.activation = Activation::kSwiGlu;
  } else if (text == "gelu" && gated) {
    model.activation = Activation::kGeGlu;
  } else if (text == "gelu") {
    model.activation = fused ? Activation::kGelu : Activation::kGeluErf;
  } else if ((text == "relu" || text == "squared_relu" || text == "relu2") && !gated) {
    model.activation = text == "relu" ? Activation::kRelu : Activation::kSquaredRelu;
  } else {
    read.Fail(
        *read.Find(bridge::kActivation),
        fmt::format("is '{}'{}, which is not modelled; gelu, relu and squared_relu can be read, and silu "
                    "and gelu with a gate",
                    base::Printable(text), gated ? " with a gate" : ""));
  }
}

void ReadBridgeKinds(SettingReader& read, ModelSpec& model) {
  LayerPattern pattern{.sliding_window = ReadCoreWindow(bridge::kWindow, read)};
  const std::int64_t full = read.Whole(bridge::kWindowPattern, 0),
                     without = read.Whole(bridge::kNoRopeInterval, 0);
  if (full == 1) pattern.sliding_window = 0;
  if (pattern.sliding_window != 0) pattern.sliding_window_pattern = full;
  if (model.position == Position::kRope) pattern.no_rope_layer_interval = without;
  if (const absl::Status status = ApplyPattern(pattern, model); !status.ok())
    read.Fail(std::string(status.message()));
}

void ReadBridgeModel(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ModelSpec& model = run.model;
  ReadCoreModel(kBridgeNames, read, run);
  const double factor = read.Real(bridge::kRopeScalingFactor, 1);
  if (read.Flag(bridge::kRopeScaling) && model.position == Position::kRope) {
    model.rope_scaling = RopeScaling::kLlama3;
    model.rope_scaling_parameters = Llama3Scaling(factor);
  }
  ReadBridgeKinds(read, model);
  model.ffn_hidden = read.Whole(kBridgeNames.ffn_hidden, 4 * model.hidden);
  model.kv_heads = read.Whole(kBridgeNames.kv_heads, model.heads);
  SetBiases(model, read.Flag(bridge::kBiases, true));
  if (read.Flag(bridge::kQkvBiases)) model.qkv_bias = true;
  ReadBridgeActivation(read, model);
  model.tied_embeddings = read.Flag(bridge::kTied, true);
  model.vocab = ReadVocabSize(bridge::kPaddedVocab, options, read);
  CheckSaidVocab(bridge::kPaddedVocab, model.vocab, options, read);
  if (options.vocab > 0) model.vocab = options.vocab;
  if (model.vocab == 0) {
    read.Fail("the file does not say how many tokens its tokenizer has; give --vocab");
    model.vocab = 1;
  }
}

void ReadBridgeStages(SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  plan.virtual_stages = read.Whole(bridge::kVirtualStages, 1);
  if (plan.pp == 1 && plan.virtual_stages > 1) {
    read.Fail(*read.Find(bridge::kVirtualStages),
              fmt::format("is {}, and {} is 1: only a pipeline has virtual stages; change one of them",
                          plan.virtual_stages, kBridgeNames.axes[1].setting));
    return;
  }
  if (const Setting* layout = read.Known(bridge::kLayout); layout != nullptr && plan.pp > 1) {
    const std::int64_t said = read.Has(bridge::kVirtualStages) ? plan.virtual_stages : 0;
    ReadPipelineLayout(*layout, read, run);
    if (said > 0 && read.ok() && said != plan.virtual_stages)
      read.FailAgainst(*layout, *read.Find(bridge::kVirtualStages), "; leave one of them");
  }
  SetDependentDefaults(plan);
  plan.p2p_overlap = read.Flag(bridge::kMessageOverlap) && plan.virtual_stages > 1;
}

LayerParts ReadBridgeModules(SettingReader& read) {
  const Setting* modules = read.Find(bridge::kRecomputeModules);
  const std::string granularity = read.Text(kBridgeNames.recompute);
  if (modules == nullptr || granularity != kSelectiveRecompute) return LayerOptions().recompute_parts;
  LayerParts parts;
  for (const std::string& name : modules->values) {
    const auto known = std::ranges::find(megatron::kModules, name, &megatron::RecomputeModule::name);
    if (known == megatron::kModules.end()) {
      read.Fail(*modules, fmt::format("names '{}', which is not modelled; give core_attn or mlp",
                                      base::Printable(name)));
      return parts;
    }
    parts.Add(known->part);
    if (known->part == LayerPart::kMlp)
      read.NoteOf(*modules, fmt::format("names mlp, which computes {}", megatron::kBeyondMlp));
  }
  return parts;
}

void ReadBridgeStates(SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  // The sections of both are made the same: one switches the other on.
  const bool fsdp = read.Flag(bridge::kFsdp), sharded = read.Flag(bridge::kShardsStates),
             of_optimizer = read.Flag("optimizer.use_distributed_optimizer"),
             gathers = read.Flag("optimizer.overlap_param_gather");
  plan.zero_stage = sharded || of_optimizer || fsdp ? 1 : 0;
  const std::string strategy = read.Text(bridge::kSharding, "no_shard");
  if (fsdp && strategy == megatron::kShardsGradients) plan.zero_stage = 2;
  if (fsdp && strategy == megatron::kShardsParameters) plan.zero_stage = 3;
  if (fsdp && plan.zero_stage == 1) {
    read.Fail(
        read.Has(bridge::kSharding) ? *read.Find(bridge::kSharding) : *read.Find(bridge::kFsdp),
        fmt::format("shards by '{}', which is not modelled; give {}={} or {}", base::Printable(strategy),
                    bridge::kSharding, megatron::kShardsGradients, megatron::kShardsParameters));
    return;
  }
  const std::int64_t replicas = read.Whole(bridge::kInstances, 1);
  if (plan.zero_stage == 1 && replicas > 1) {
    if (BatchRanks(plan) % replicas != 0) {
      read.Fail(*read.Find(bridge::kInstances),
                fmt::format("is {}, which does not divide the {} data ranks; change it", replicas,
                            BatchRanks(plan)));
      return;
    }
    plan.dp_shard = BatchRanks(plan) / replicas;
  }
  plan.grad_overlap = read.Flag(bridge::kGradOverlap);
  plan.param_overlap = read.Flag(bridge::kParamOverlap) || gathers;
  ReadOptimizer({.name = bridge::kOptimizer, .momentum = "optimizer.sgd_momentum", .default_momentum = 0.9},
                read, run);
}

}  // namespace

void ReadMegatronBridge(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ReadRanks({.nodes = kLaunchNodes, .ranks_of_node = kLaunchRanks}, options, read, run);
  run.workload.seq_len = options.seq_len;
  if (run.workload.seq_len == 0)
    run.workload.seq_len = read.Required(read.Has(kBridgeNames.seq_len) || !read.Has(kBridgeNames.max_seq_len)
                                             ? kBridgeNames.seq_len
                                             : kBridgeNames.max_seq_len);
  if (options.model) {
    run.model = *options.model;
  } else if (!read.Has(kBridgeNames.layers)) {
    read.Fail("the model is that of a recipe, which the overrides do not say; give --model");
    return;
  } else {
    ReadBridgeModel(options, read, run);
  }
  ReadBridgePrecision(read, run);
  ReadCorePlan(kBridgeNames, options, read, run);
  ReadBridgeStages(read, run);
  ReadCoreRecompute(kBridgeNames, ReadBridgeModules(read), read, run);
  ReadBridgeStates(read, run);
  ReadCoreLoss(bridge::kFusedLoss, bridge::kLossImplementation, true, read, run);
}

}  // namespace autocfg
