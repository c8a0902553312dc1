#include "search/frameworks/megatron/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/numbers.h"
#include "base/text.h"
#include "search/plan/model_stages.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

// The tanh form comes with the kernel that adds the biases; without biases it is the erf form. Of other
// functions, each framework says which it has.
bool IsItsGelu(const ModelSpec& model) {
  if (model.activation == Activation::kGelu) return model.mlp_bias;
  return model.activation != Activation::kGeluErf || !model.mlp_bias;
}

}  // namespace

CoreBiases CoreBiasesOf(const ModelSpec& model) {
  if (model.attention_out_bias != model.mlp_bias) return CoreBiases::kOther;
  if (model.mlp_bias) return model.qkv_bias ? CoreBiases::kAll : CoreBiases::kOther;
  return model.qkv_bias ? CoreBiases::kQkvOnly : CoreBiases::kNone;
}

bool HasLinearScaling(const ModelSpec& model) {
  return model.rope_scaling == RopeScaling::kLinear && !NamesRopeScalingAlone(model);
}

void CheckCoreModel(const ModelSpec& model, Refusals& refuse) {
  refuse.UnlessModel(IsItsGelu(model),
                     fmt::format("activation={} {} biases (it has gelu with them, gelu_erf without)",
                                 Name(model.activation), model.mlp_bias ? "with" : "without"));
  refuse.UnlessModel(model.position != Position::kAlibi, "position=alibi");
  refuse.UnlessModel(model.position != Position::kRope || model.rope_theta == std::floor(model.rope_theta),
                     fmt::format("rope_theta={} (it takes whole numbers)", model.rope_theta));
  refuse.UnlessModel(CoreBiasesOf(model) != CoreBiases::kOther,
                     "biases of some linear layers (it has those of all, of q, k and v, or none)");
  refuse.UnlessModel(
      model.qk_norm == QkNorm::kNone || (model.qk_norm == QkNorm::kHead && model.norm == Norm::kRmsNorm),
      fmt::format("qk_norm={} with norm={} (it norms each head, in the way of the other norms)",
                  Name(model.qk_norm), Name(model.norm)));
  for (const ModelField& feature : ModelFeatures()) {
    constexpr std::string_view kHas[] = {"qk_norm", "partial_rotary_factor", "dropout", "attention_dropout"};
    if (std::ranges::find(kHas, feature.name) != std::end(kHas)) continue;
    const std::string value = feature.names.empty() ? "" : "=" + std::get<std::string>(*feature.Get(model));
    refuse.UnlessModel(feature.IsDefault(model), fmt::format("{}{}", feature.name, value));
  }
}

void ReadRotaryPositions(const CoreNames& names, SettingReader& read, ModelSpec& model) {
  model.position = Position::kRope;
  model.rope_theta = read.Real(names.rotary_base, 10000);
  model.partial_rotary_factor = read.Real(names.rotary_share, 1);
  if (const double factor = read.Real(names.rotary_factor, 1); factor != 1) {
    model.rope_scaling = RopeScaling::kLinear;
    model.rope_scaling_parameters = {.factor = factor};
  }
}

namespace {

double ReadDropout(std::string_view name, SettingReader& read) {
  const double share = read.Real(name, 0.1);
  if (share >= 0 && share < 1) return share;
  read.Fail(*read.Find(name), fmt::format("is {}; it must be from 0 to below 1", share));
  return 0;
}

}  // namespace

void ReadCoreModel(const CoreNames& names, SettingReader& read, RunDraft& run) {
  ModelSpec& model = run.model;
  model.layers = read.Required(names.layers);
  model.hidden = read.Required(names.hidden);
  model.heads = read.Required(names.heads);
  model.head_dim = read.Whole(names.head_dim, 0);
  model.max_seq_len = read.Whole(names.max_seq_len, run.workload.seq_len);
  if (const std::int64_t tokens = read.Whole(names.seq_len, 0);
      tokens == run.workload.seq_len && model.max_seq_len < tokens) {
    read.Fail(*read.Find(names.max_seq_len), fmt::format("is {}, below {} {}; change one of them",
                                                         model.max_seq_len, names.seq_len, tokens));
  }
  const std::string written = read.Text(names.norm, names.layer_norm);
  const auto is = [&](std::string_view norm) {
    return names.norm_in_any_case ? absl::EqualsIgnoreCase(written, std::string(norm)) : written == norm;
  };
  if (!is(names.layer_norm) && !is(names.rms_norm) && !is("layernorm1p")) {
    read.Fail(*read.Find(names.norm),
              fmt::format("is '{}'; only {} and {} can be read", base::Printable(written), names.layer_norm,
                          names.rms_norm));
  }
  model.norm = is(names.rms_norm) ? Norm::kRmsNorm : Norm::kLayerNorm;
  model.norm_eps = read.Real(names.norm_eps, 1e-5);
  model.qk_norm = read.Flag(names.qk_norm) ? QkNorm::kHead : QkNorm::kNone;
  model.vocab_multiple = read.Whole(names.vocab_multiple, 128);
  model.init_std = read.Real(names.init_std, 0.02);
  model.dropout = ReadDropout(names.hidden_dropout, read);
  if (const double share = ReadDropout(names.attention_dropout, read); share != model.dropout)
    model.attention_dropout = share;
  std::string position = read.Text(names.position, kLearnedPositions);
  if (position == "rotary") position = kRotaryPositions;     // of forks
  if (position == "absolute") position = kLearnedPositions;  // of forks
  if (absl::AsciiStrToLower(position) == kAlibiPositions) position = kAlibiPositions;
  if (position == kRotaryPositions) {
    ReadRotaryPositions(names, read, model);
  } else if (position == kLearnedPositions || position == kNoPositions || position == kAlibiPositions) {
    model.position = position == kLearnedPositions ? Position::kLearned
                     : position == kNoPositions    ? Position::kNone
                                                   : Position::kAlibi;
    (void)read.Find(names.rotary_base);
    (void)read.Find(names.rotary_share);
    (void)read.Find(names.rotary_factor);
  } else {
    read.Fail(*read.Find(names.position),
              fmt::format("is '{}', which is not modelled; only {}, {}, {} and {} can be read",
                          base::Printable(position), kLearnedPositions, kRotaryPositions, kAlibiPositions,
                          kNoPositions));
  }
}

namespace {

// A file without it leaves it to --plan.
std::int64_t ReadCoreMicroBatch(std::string_view name, const ReadingOptions& options, SettingReader& read,
                                RunDraft& run) {
  if (read.Has(name)) return read.Whole(name, 1);
  if (const auto said = options.plan.find("mbs"); said != options.plan.end()) {
    run.unsaid.emplace_back("mbs");
    return base::ParseNumber<std::int64_t>(said->second, 1, kMostSize).value_or(1);
  }
  read.FailMissing(name, fmt::format("{} is missing; add it, or give --plan mbs=N", name));
  return 1;
}

}  // namespace

void ReadCorePlan(const CoreNames& names, const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  read.RefuseAboveOne(names.expert_parallel, "expert parallelism is not modelled");
  read.RefuseAboveOne(names.context_parallel, "context parallelism is not modelled");
  ReadAxes(names.axes, read, run);
  SetDataRanks(names.axes, read, run);
  plan.micro_batch = ReadCoreMicroBatch(names.micro_batch, options, read, run);
  run.workload.global_batch = read.Whole(names.global_batch, Times(plan.micro_batch, BatchRanks(plan)));
  if (!read.Has(names.global_batch)) NoteDefaultBatch(names.global_batch, read, run);
  CheckBatch(names.global_batch, read, run);
  plan.sequence_parallel = read.Flag(names.sp) && SplitsLayers(plan);
  ReadTensorOverlap(names.tp_overlap, read, run);
  if (plan.tp_overlap > 1 && !plan.sequence_parallel)
    read.Fail(*read.Find(names.tp_overlap), fmt::format("needs {}; add it", names.sp));
  const std::string attention = read.Text(names.attention, kChosenLater);
  const bool chosen_later = attention == kChosenLater,
             unfused = attention == kUnfusedAttention || attention == "local",
             fp32 = BaseName(run.workload.precision) == "fp32";
  if (fp32 && !chosen_later && !unfused) {
    read.Fail(*read.Find(names.attention),
              fmt::format("is {}, which takes 16 bits, and the run is in fp32; give {}",
                          base::Printable(attention), kUnfusedAttention));
  }
  // The framework has one kind for fp32, and for a device without fused kernels.
  const bool only_unfused = fp32 || !options.fused_attention;
  if (chosen_later && !only_unfused) run.unsaid.emplace_back("attention");
  plan.attention = unfused || (chosen_later && only_unfused) ? Attention::kUnfused : Attention::kFused;
  if (chosen_later && !fp32 && !options.fused_attention)
    read.Note("the device has no fused attention: read as attention=unfused");
}

void SetSelective(const Setting& setting, LayerParts parts, SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const bool idle = parts.Has(LayerPart::kCoreAttention) && plan.attention == Attention::kFused;
  if (idle) parts = parts.Without(LayerPart::kCoreAttention);
  plan.recompute = parts.IsEmpty() ? Recompute::kNone : Recompute::kSelective;
  if (!parts.IsEmpty()) plan.recompute_parts = parts;
  if (idle) {
    read.NoteOf(setting,
                fmt::format("is selective, and fused attention keeps no scores to recompute: read as "
                            "recompute={}",
                            RecomputeText(plan)));
  }
}

void ReadCoreLoss(std::string_view fused, std::string_view implementation, bool otherwise,
                  SettingReader& read, RunDraft& run) {
  const bool in_place = read.Text(implementation, "native") == "te";
  if (read.Flag(fused, otherwise))
    run.engine_settings.push_back(fmt::format("logit_bytes={}", in_place ? 0 : kFusedLogitBytes));
}

void SetUniformRecompute(std::int64_t layers, RunDraft& run) {
  run.plan.recompute = Recompute::kFull;
  if (layers > 1) run.engine_settings.push_back(fmt::format("recompute_chunk={}", layers));
}

void ReadCoreRecompute(const CoreNames& names, LayerParts selected, SettingReader& read, RunDraft& run,
                       std::string_view otherwise) {
  ParallelPlan& plan = run.plan;
  const std::string granularity = read.Text(names.recompute, otherwise);
  const Setting* method = read.Known(names.recompute_method);
  const std::int64_t layers = read.Whole(names.recompute_layers, 0, 0);
  if (granularity == "none") return;
  if (granularity == kSelectiveRecompute) {
    if (method != nullptr && names.selective_takes_method) {
      read.NoteOf(*method, fmt::format("has no effect with {} {}", names.recompute, granularity));
    } else if (method != nullptr) {
      read.Fail(*method, fmt::format("contradicts {} {} of line {}; leave it out", names.recompute,
                                     granularity, read.text().Line(read.Find(names.recompute)->at)));
    }
    SetSelective(*read.Find(names.recompute), selected, read, run);
    return;
  }
  if (granularity != kFullRecompute) {
    read.Fail(*read.Find(names.recompute),
              fmt::format("is '{}'; give full or selective", base::Printable(granularity)));
    return;
  }
  plan.recompute = Recompute::kFull;
  if (method == nullptr) {
    read.Fail(*read.Find(names.recompute),
              fmt::format("is full, and {} is missing; add uniform or block", names.recompute_method));
    return;
  }
  const std::string how = method->values.empty() ? "" : method->values.front();
  if (how == kUniformRecompute) {
    SetUniformRecompute(layers, run);
  } else if (how == kBlockRecompute) {
    const std::int64_t stages = std::max<std::int64_t>(1, StageCount(plan));
    const std::int64_t most = plan.split == SplitMode::kExplicit && !plan.split_layers.empty()
                                  ? *std::max_element(plan.split_layers.begin(), plan.split_layers.end())
                                  : run.model.layers / stages;
    if (layers == 0) {
      plan.recompute = Recompute::kNone;
    } else {
      plan.recompute_layers = layers < most ? layers : 0;
    }
  } else {
    read.Fail(*method, fmt::format("is '{}'; give uniform or block", base::Printable(how)));
  }
}

}  // namespace autocfg
