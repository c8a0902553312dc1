// Megatron-LM's flags. Defaults: megatron/training/arguments.py of the release that the writer follows.
#include <algorithm>
#include <array>
#include <utility>

#include "base/numbers.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

void ReadStates(SettingReader& read, RunDraft& run) {
  ParallelPlan& plan = run.plan;
  const bool fsdp = read.Flag(megatron::kFsdp) || read.Flag("--use-custom-fsdp");
  const std::string sharding = read.Text(megatron::kSharding, "no_shard");
  constexpr std::array<std::string_view, 4> kStrategies = {"no_shard", "optim", megatron::kShardsGradients,
                                                           megatron::kShardsParameters};
  plan.zero_stage = read.Flag(megatron::kShardsStates) ? 1 : 0;
  if (fsdp) {
    const auto found = std::find(kStrategies.begin(), kStrategies.end(), sharding);
    if (found == kStrategies.end()) {
      read.Fail(*read.Find(megatron::kSharding),
                fmt::format("is '{}'; give no_shard, optim, {} or {}", base::Printable(sharding),
                            megatron::kShardsGradients, megatron::kShardsParameters));
    }
    plan.zero_stage = found - kStrategies.begin();
  }
  const std::int64_t instances = read.Whole(megatron::kInstances, 1);
  if (instances > 1) {
    const std::int64_t ranks = BatchRanks(plan);
    if (ranks % instances != 0) {
      read.Fail(*read.Find(megatron::kInstances),
                fmt::format("is {}, which does not divide the {} data ranks; change one of them", instances,
                            ranks));
    } else if (plan.zero_stage > 0) {
      plan.dp_shard = ranks / instances;
    }
  }
  plan.grad_overlap = read.Flag(megatron::kGradOverlap);
  plan.param_overlap = read.Flag(megatron::kParamOverlap);
  if (plan.param_overlap && (!plan.grad_overlap || plan.zero_stage == 0)) {
    read.Fail(*read.Find(megatron::kParamOverlap),
              fmt::format("needs {} and {}; add them", megatron::kGradOverlap, megatron::kShardsStates));
  }
}

// Reads a type of the precision-aware optimizer; `otherwise` without it.
DType StateType(std::string_view name, DType otherwise, std::initializer_list<DType> has,
                SettingReader& read) {
  const std::string text = read.Text(name, Name(otherwise));
  std::vector<std::string> names;
  for (const DType type : has) {
    if (Name(type) == text) return type;
    names.emplace_back(Name(type));
  }
  read.Fail(*read.Find(name), fmt::format("is '{}', which is not modelled; give {}", base::Printable(text),
                                          base::ChoiceText(names)));
  return otherwise;
}

void ReadPrecisionAware(SettingReader& read, RunDraft& run) {
  Precision& precision = run.workload.precision;
  const bool aware = read.Flag(megatron::kPrecisionAware);
  if (aware && !read.Flag(megatron::kShardsStates)) {
    read.Fail(*read.Find(megatron::kPrecisionAware),
              fmt::format("needs {}; add it", megatron::kShardsStates));
    return;
  }
  const DType gradients = StateType(megatron::kGradientType, DType::kF32, {DType::kF32, DType::kBF16}, read);
  const DType master = StateType(megatron::kMasterType, DType::kF32, {DType::kF32, DType::kF16}, read);
  const auto moment = [&](std::string_view name) {
    return StateType(name, DType::kF32, {DType::kF32, DType::kBF16, DType::kF16}, read);
  };
  const DType first = moment(megatron::kFirstMomentType), second = moment(megatron::kSecondMomentType);
  if (!aware) {
    const std::pair<std::string_view, DType> types[] = {{megatron::kGradientType, gradients},
                                                        {megatron::kMasterType, master},
                                                        {megatron::kFirstMomentType, first},
                                                        {megatron::kSecondMomentType, second}};
    for (const auto& [name, type] : types) {
      if (type != DType::kF32) {
        read.Fail(*read.Find(name), fmt::format("needs {}; add it", megatron::kPrecisionAware));
        return;
      }
    }
    return;
  }
  if (first != second) {
    const std::string_view named =
        read.Has(megatron::kSecondMomentType) ? megatron::kSecondMomentType : megatron::kFirstMomentType;
    const DType type = named == megatron::kSecondMomentType ? second : first;
    read.Fail(*read.Find(named),
              fmt::format(
                  "is {}, and the other moment is {}; moments of two types are not modelled, so give {} and "
                  "{} one type",
                  Name(type), Name(named == megatron::kSecondMomentType ? first : second),
                  megatron::kFirstMomentType, megatron::kSecondMomentType));
    return;
  }
  if (gradients != DType::kF32 && read.Flag(megatron::kWideGradients)) {
    read.FailAgainst(*read.Find(megatron::kGradientType), *read.Find(megatron::kWideGradients),
                     "; leave one of them");
    return;
  }
  precision.gradients = gradients;
  precision.moments = first;
  if (precision.master) precision.master = master;
}

// Returns the precision whose products are in the format that the file says; empty: they are in none.
std::string_view ReadProductFormat(SettingReader& read) {
  const bool fp8 = read.Has(megatron::kFp8) || read.Has(megatron::kFp8Hybrid);
  const std::string recipe = read.Text(megatron::kFp8Recipe, "delayed");
  if (const Setting* fp4 = read.Find(megatron::kFp4)) {
    if (fp8)
      read.FailAgainst(*fp4, *read.Find(read.Has(megatron::kFp8) ? megatron::kFp8 : megatron::kFp8Hybrid),
                       "; leave one of them");
    if (const std::string of_fp4 = read.Text(megatron::kFp4Recipe, "nvfp4"); of_fp4 != "nvfp4")
      read.Fail(*read.Find(megatron::kFp4Recipe),
                fmt::format("is '{}', which is not modelled; give nvfp4", base::Printable(of_fp4)));
    return "nvfp4";
  }
  if (!fp8) return "";
  for (const auto& [name, precision] : megatron::kFp8Recipes) {
    if (recipe == name) return precision;
  }
  read.Fail(*read.Find(megatron::kFp8Recipe),
            fmt::format("is '{}', which is not modelled; give delayed, tensorwise, blockwise or mxfp8",
                        base::Printable(recipe)));
  return "fp8";
}

void ReadPrecision(SettingReader& read, RunDraft& run) {
  const bool bf16 = read.Flag(megatron::kBf16), fp16 = read.Flag(megatron::kFp16);
  if (bf16 && fp16)
    read.FailAgainst(*read.Find(megatron::kFp16), *read.Find(megatron::kBf16), "; leave one of them");
  const std::string_view narrow_products = ReadProductFormat(read);
  Precision& precision = run.workload.precision;
  precision = *ParsePrecision(!narrow_products.empty() ? narrow_products
                              : bf16                   ? "bf16"
                              : fp16                   ? "fp16"
                                                       : "fp32");
  if (const Setting* narrow =
          read.Flag(megatron::kNarrowGradients) ? read.Find(megatron::kNarrowGradients) : nullptr) {
    if (!bf16) read.Fail(*narrow, fmt::format("needs {}; add it", megatron::kBf16));
    precision.gradients = DType::kBF16;
  }
  if (!read.Flag(megatron::kWideGradients) && fp16) precision.gradients = DType::kF16;
  ReadPrecisionAware(read, run);
  ReadOptimizer({.name = megatron::kOptimizer, .momentum = megatron::kMomentum, .default_momentum = 0.9},
                read, run);
  if (!read.ok() || run.workload.optimizer.kind == OptimizerKind::kAdamW) return;
  for (const std::string_view of_adam : {megatron::kShardsStates, megatron::kPrecisionAware}) {
    if (read.Flag(of_adam))
      read.FailAgainst(*read.Find(of_adam), *read.Find(megatron::kOptimizer),
                       "; it has adam alone, so leave it out");
  }
}

// The tokens of the tokenizers whose vocabulary is fixed.
std::int64_t VocabOfTokenizer(std::string_view tokenizer) {
  if (tokenizer == megatron::kDefaultTokenizer) return 50257;
  if (tokenizer == "Llama2Tokenizer") return 32000;
  return 0;
}

void ReadVocab(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  const Setting* tokenizer = read.Find(megatron::kTokenizer);
  std::string name;
  if (tokenizer == nullptr) name = megatron::kDefaultTokenizer;
  if (tokenizer != nullptr && tokenizer->unknown.empty() && tokenizer->values.size() == 1)
    name = tokenizer->values.front();
  std::int64_t& vocab = run.model.vocab;
  vocab = ReadVocabSize(megatron::kVocab, options, read);
  // The tokenizer adds one id, for the end of a document.
  if (vocab > 0 && name == megatron::kNullTokenizer) ++vocab;
  const std::int64_t fixed = VocabOfTokenizer(name);
  if (options.vocab > 0) {
    CheckSaidVocab(megatron::kVocab, vocab, options, read);
    if (tokenizer != nullptr && vocab == 0 && fixed > 0 && fixed != options.vocab)
      read.NoteOf(*tokenizer,
                  fmt::format("has {} tokens; read with the {} of --vocab", fixed, options.vocab));
    vocab = options.vocab;
  }
  // BigScience's fork says the vocabulary with its padding.
  if (const std::int64_t padded = read.Whole("--pad-vocab-size-to", 0); padded > 0 && options.vocab == 0)
    vocab = padded;
  if (vocab > 0) return;
  vocab = fixed;
  if (fixed == 0) {
    read.Fail(fmt::format("the file does not say how many tokens {} has; give --vocab",
                          base::Printable(name.empty() ? "its tokenizer" : name)));
    vocab = 1;
  } else if (tokenizer == nullptr) {
    read.Note(fmt::format("{} is missing: the framework then takes {}, of {} tokens", megatron::kTokenizer,
                          name, fixed));
  }
}

// Lists of layers are not whole numbers, and refused.
void ReadKinds(SettingReader& read, ModelSpec& model) {
  LayerPattern pattern{.sliding_window = ReadCoreWindow(megatron::kWindow, read)};
  const std::int64_t full = read.Whole(megatron::kWindowPattern, 0);
  const std::int64_t without = read.Whole(megatron::kNoRopeInterval, 0);
  if (full == 1) pattern.sliding_window = 0;
  if (pattern.sliding_window != 0) pattern.sliding_window_pattern = full;
  if (model.position == Position::kRope) pattern.no_rope_layer_interval = without;
  if (const absl::Status status = ApplyPattern(pattern, model); !status.ok())
    read.Fail(std::string(status.message()));
}

// Returns the activation of the function that the file names. Without one, its kernel that adds the biases
// takes the tanh form; without biases, the erf form is taken.
Activation ReadFlagActivation(bool biases, SettingReader& read) {
  constexpr std::pair<std::string_view, Activation> kFlags[] = {{megatron::kSwiGlu, Activation::kSwiGlu},
                                                                {"--squared-relu", Activation::kSquaredRelu},
                                                                {"--openai-gelu", Activation::kGelu}};
  const Setting* said = nullptr;
  Activation activation = biases ? Activation::kGelu : Activation::kGeluErf;
  for (const auto& [name, function] : kFlags) {
    if (!read.Flag(name)) continue;
    if (said != nullptr) read.FailAgainst(*read.Find(name), *said, "; leave one of them");
    said = read.Find(name);
    activation = function;
  }
  // BigScience's fork has it.
  constexpr std::string_view kGlu = "--glu-activation";
  if (const std::string glu = read.Text(kGlu); !glu.empty()) {
    if (glu == "swiglu" || glu == "geglu") return glu == "swiglu" ? Activation::kSwiGlu : Activation::kGeGlu;
    read.Fail(*read.Find(kGlu), fmt::format("is '{}', which is not modelled; swiglu and geglu can be read",
                                            base::Printable(glu)));
  }
  return activation;
}

// Returns the groups of keys and values: --num-key-value-heads is the name of a fork (Megatron-DeepSpeed).
std::int64_t ReadKvHeads(std::int64_t heads, SettingReader& read) {
  const std::int64_t groups = read.Whole(kMegatronNames.kv_heads, 1),
                     of_fork = read.Whole("--num-key-value-heads", heads);
  return read.Flag(megatron::kGroupedQueries) ? groups : of_fork;
}

void ReadModel(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ModelSpec& model = run.model;
  ReadCoreModel(kMegatronNames, read, run);
  model.embedding_norm = read.Flag("--embed-layernorm");  // of a fork (BigScience's)
  if (read.Find(kMegatronNames.norm_eps) == nullptr)
    model.norm_eps = read.Real("--layernorm-epsilon", model.norm_eps);  // its older name
  if (read.Flag("--use-rotary-position-embeddings")) {
    ReadRotaryPositions(kMegatronNames, read, model);
  } else if (read.Flag("--no-position-embedding")) {
    if (!read.Has(kMegatronNames.position)) model.position = Position::kNone;
  }
  const double factor = read.Real(megatron::kRopeScalingFactor, 8);
  if (read.Flag(megatron::kRopeScaling) && model.position == Position::kRope) {
    if (HasLinearScaling(model)) {
      read.FailAgainst(*read.Find(megatron::kRopeScaling), *read.Find(kMegatronNames.rotary_factor),
                       "; leave one of them");
    }
    model.rope_scaling = RopeScaling::kLlama3;
    model.rope_scaling_parameters = Llama3Scaling(factor);
  }
  ReadKinds(read, model);
  const bool biases = !read.Flag(megatron::kNoBiases);
  model.activation = ReadFlagActivation(biases, read);
  const bool swiglu = model.activation == Activation::kSwiGlu && read.Has(megatron::kSwiGlu);
  const std::int64_t gated = model.hidden * 4 * 2 / 3 / 64 * 64;
  model.ffn_hidden =
      read.Whole(kMegatronNames.ffn_hidden, swiglu ? std::max<std::int64_t>(gated, 64) : 4 * model.hidden);
  model.kv_heads = ReadKvHeads(model.heads, read);
  SetBiases(model, biases);
  if (read.Flag(megatron::kQkvBiases)) model.qkv_bias = true;
  model.tied_embeddings = !read.Flag(megatron::kUntied);
  ReadVocab(options, read, run);
}

}  // namespace

std::int64_t ReadCoreWindow(std::string_view name, SettingReader& read) {
  const Setting* window = read.Known(name);
  if (window == nullptr) return 0;
  std::string text = fmt::format("{}", fmt::join(window->values, ","));
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == '[' || c == ']' || c == ' '; });
  const std::size_t comma = text.find(',');
  const auto before = base::ParseNumber<std::int64_t>(std::string_view(text).substr(0, comma));
  const bool causal =
      comma != std::string::npos && (text.substr(comma) == ",0" || text.substr(comma) == ",-1");
  if (before && causal && *before >= -1 && *before < kMostSize) return *before + 1;
  read.Fail(*window, fmt::format("is {}; only N,0 can be read: the tokens before a token, and none after it",
                                 base::Printable(text)));
  return 0;
}

bool HasLocalLayers(SettingReader& read) {
  return read.Text("--transformer-impl", "transformer_engine") == "local";
}

CoreNames MegatronNamesIn(SettingReader& read) {
  CoreNames names = kMegatronNames;
  const auto take_old = [&](std::string_view& name, std::string_view old, std::string_view now) {
    // A name that is not there must not be asked for: others are near it (--patch-size).
    if (std::ranges::find(read.text().settings, old, &Setting::name) == read.text().settings.end()) return;
    const Setting* setting = read.Find(old);
    if (const Setting* other = read.Find(name)) {
      read.FailAgainst(*setting, *other, "; leave one of them");
      return;
    }
    read.NoteOf(*setting, fmt::format("is of Megatron-LM before 2.0: read as {}", now));
    name = old;
  };
  take_old(names.micro_batch, "--batch-size", names.micro_batch);
  take_old(names.axes[0].setting, "--model-parallel-size", names.axes[0].setting);
  return names;
}

void ReadMegatronModel(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  if (!options.model)
    read.RefuseIfOn("--use-checkpoint-args", "the model stands in a checkpoint; give --model");
  if (read.Flag(megatron::kFromBridge) && !options.model) {
    read.Fail(*read.Find(megatron::kFromBridge),
              "prints neither positions nor vocabulary of its model; give --model");
    return;
  }
  if (read.Has(megatron::kWorldSize)) {
    run.ranks = read.Whole(megatron::kWorldSize, 1);
  } else {
    ReadRanks({.nodes = kLaunchNodes, .ranks_of_node = kLaunchRanks}, options, read, run);
  }
  run.workload.seq_len = options.seq_len > 0 ? options.seq_len : read.Required(kMegatronNames.seq_len);
  if (options.model) {
    run.model = *options.model;
  } else {
    ReadModel(options, read, run);
  }
}

void ReadMegatron(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ReadMegatronModel(options, read, run);
  if (!read.ok()) return;
  const CoreNames names = MegatronNamesIn(read);
  ReadPrecision(read, run);
  ReadCorePlan(names, options, read, run);
  if (HasLocalLayers(read)) {  // its attention stores scores (core/transformer/dot_product_attention.py)
    run.plan.attention = Attention::kUnfused;
    std::erase(run.unsaid, "attention");
  }
  ReadMegatronStages(read, run);
  ReadMegatronRecompute(names, read, run);
  ReadCoreLoss("--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl", false, read, run);
  ReadStates(read, run);
  if (const Setting* ramp = read.Find("--rampup-batch-size"))
    read.NoteOf(*ramp, fmt::format("is left out: the batch is the last one, {} sequences",
                                   run.workload.global_batch));
}

}  // namespace autocfg
