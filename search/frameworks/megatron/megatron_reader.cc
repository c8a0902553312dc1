// Megatron-LM's flags. Defaults: megatron/training/arguments.py of the release that the writer follows.
#include <algorithm>
#include <array>
#include <optional>

#include "base/numbers.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/plan/plan_options.h"

namespace autocfg {
namespace {

constexpr std::size_t kMostLayoutStages = 100'000;

// Expands "Et*2|(t|)*3tL" to a letter a layer. Returns nothing for another form, or one that is too long.
class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}
  std::optional<std::string> Read() {
    std::string all = Sequence(0);
    if (wrong_ || at_ != text_.size()) return std::nullopt;
    return all;
  }

 private:
  std::string Sequence(int depth) {
    std::string all;
    while (at_ < text_.size() && text_[at_] != ')' && !wrong_) {
      std::string item;
      const char c = text_[at_++];
      if (c == ',') continue;
      if (c == '(' && depth < 16) {
        item = Sequence(depth + 1);
        if (at_ >= text_.size()) wrong_ = true;
        ++at_;
      } else if (c == 'E' || c == 't' || c == 'L' || c == '|' || c == 'm') {
        item = c;
      } else {
        wrong_ = true;
      }
      std::size_t times = 1;
      if (at_ + 1 < text_.size() && text_[at_] == '*') {
        times = 0;
        for (++at_; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && times < kMostLayoutStages;
             ++at_)
          times = 10 * times + static_cast<std::size_t>(text_[at_] - '0');
      }
      if (times * item.size() + all.size() > 10 * kMostLayoutStages) wrong_ = true;
      for (std::size_t i = 0; i < times && !wrong_; ++i) all += item;
    }
    return all;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool wrong_ = false;
};

void ReadLayout(const Setting& layout, SettingReader& read, RunDraft& run) {
  const auto letters =
      LayoutReader(layout.values.size() == 1 ? std::string_view(layout.values.front()) : "").Read();
  if (!letters || letters->empty()) {
    read.Fail(layout, "is no layout; give one such as Et*4|t*4L");
    return;
  }
  std::vector<std::int64_t> stages = {0};
  for (const char c : *letters) {
    if (c == '|') stages.push_back(0);
    if (c == 't') ++stages.back();
  }
  const bool ends = letters->front() == 'E' && letters->back() == 'L' &&
                    std::count(letters->begin(), letters->end(), 'E') == 1 &&
                    std::count(letters->begin(), letters->end(), 'L') == 1;
  if (!ends || letters->find('m') != std::string::npos ||
      std::find(stages.begin(), stages.end(), 0) != stages.end()) {
    read.Fail(layout,
              "cannot be read: each stage needs a layer, the first the embedding, the last the loss; "
              "give such a layout");
    return;
  }
  const auto count = static_cast<std::int64_t>(stages.size());
  if (count % run.plan.pp != 0) {
    read.Fail(layout, fmt::format("has {} stages, which do not divide by pp={}; change one of them", count,
                                  run.plan.pp));
    return;
  }
  run.plan.virtual_stages = count / run.plan.pp;
  SetStages(std::move(stages), run);
}

// Stages of which the first or the last has another size.
void ReadUnevenEnds(SettingReader& read, RunDraft& run) {
  const Setting* first = read.Known("--decoder-first-pipeline-num-layers");
  const Setting* last = read.Known("--decoder-last-pipeline-num-layers");
  const Setting* embedding = read.Known("--account-for-embedding-in-pipeline-split");
  const Setting* loss = read.Known("--account-for-loss-in-pipeline-split");
  const std::int64_t pp = run.plan.pp;
  if (pp == 1 || pp > run.model.layers ||
      (first == nullptr && last == nullptr && embedding == nullptr && loss == nullptr))
    return;
  const Setting& any = *(first != nullptr       ? first
                         : last != nullptr      ? last
                         : embedding != nullptr ? embedding
                                                : loss);
  if (run.plan.virtual_stages > 1) {
    read.Fail(any, "with interleaving cannot be read; write the stages as --pipeline-model-parallel-layout");
    return;
  }
  std::vector<std::int64_t> stages(static_cast<std::size_t>(pp), 0);
  if (embedding != nullptr || loss != nullptr) {
    const std::int64_t counted =
        run.model.layers + (embedding != nullptr ? 1 : 0) + (loss != nullptr ? 1 : 0);
    std::fill(stages.begin(), stages.end(), counted / pp);
    if (embedding != nullptr) --stages.front();
    if (loss != nullptr) --stages.back();
    if (counted % pp != 0) {
      read.Fail(
          any, fmt::format("makes {} layers, which do not divide by pp={}; change one of them", counted, pp));
      return;
    }
  } else {
    const std::int64_t head = read.Whole("--decoder-first-pipeline-num-layers", 0);
    const std::int64_t tail = read.Whole("--decoder-last-pipeline-num-layers", 0);
    const std::int64_t middle = pp - (head > 0 ? 1 : 0) - (tail > 0 ? 1 : 0),
                       left = run.model.layers - head - tail;
    if (left < middle || (middle == 0 ? left != 0 : left % middle != 0)) {
      read.Fail(any, fmt::format("leaves {} layers for {} stages; change one of them", left, middle));
      return;
    }
    if (middle > 0) std::fill(stages.begin(), stages.end(), left / middle);
    if (head > 0) stages.front() = head;
    if (tail > 0) stages.back() = tail;
  }
  SetStages(std::move(stages), run);
}

void ReadStages(SettingReader& read, RunDraft& run) {
  constexpr std::string_view kPerRank = "--num-virtual-stages-per-pipeline-rank";
  const Setting* given = nullptr;
  for (const std::string_view name : {megatron::kLayout, megatron::kLayersPerStage, kPerRank}) {
    const Setting* setting = read.Known(name);
    if (setting == nullptr) continue;
    if (given != nullptr) {
      read.FailAgainst(*setting, *given, ": both say the stages; leave one of them");
      return;
    }
    given = setting;
  }
  const std::int64_t per_stage = read.Whole(megatron::kLayersPerStage, 0), per_rank = read.Whole(kPerRank, 1);
  run.plan.virtual_stages = 1;
  if (given != nullptr && given->name == megatron::kLayout) {
    ReadLayout(*given, read, run);
  } else if (per_stage > 0) {
    const std::int64_t of_rank = run.model.layers / run.plan.pp;
    if (run.model.layers % run.plan.pp != 0 || of_rank % per_stage != 0) {
      read.Fail(
          *given,
          fmt::format("is {}, which does not divide the {} layers of {} pipeline ranks; change one of them",
                      per_stage, run.model.layers, run.plan.pp));
      return;
    }
    run.plan.virtual_stages = of_rank / per_stage;
  } else {
    run.plan.virtual_stages = per_rank;
  }
  if (run.plan.pp == 1) run.plan.virtual_stages = 1;
  constexpr std::string_view kGroup = "--microbatch-group-size-per-virtual-pipeline-stage";
  if (const std::int64_t group = read.Whole(kGroup, run.plan.pp);
      run.plan.virtual_stages > 1 && group != run.plan.pp) {
    read.Fail(*read.Find(kGroup),
              fmt::format("is {}; only the number of pipeline ranks, {}, can be read", group, run.plan.pp));
  }
  SetDependentDefaults(run.plan);
  const bool plain = read.Flag(megatron::kPlainMessages);
  run.plan.p2p_overlap = run.plan.virtual_stages > 1 && !plain;
}

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

void ReadPrecision(SettingReader& read, RunDraft& run) {
  const bool bf16 = read.Flag(megatron::kBf16), fp16 = read.Flag(megatron::kFp16);
  if (bf16 && fp16)
    read.FailAgainst(*read.Find(megatron::kFp16), *read.Find(megatron::kBf16), "; leave one of them");
  const bool fp8 = read.Has("--fp8-format") || read.Has("--fp8-hybrid");
  Precision& precision = run.workload.precision;
  precision = *ParsePrecision(fp8 ? "fp8" : bf16 ? "bf16" : fp16 ? "fp16" : "fp32");
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

// Whether layers are Megatron's own, in place of Transformer Engine's.
bool IsLocal(SettingReader& read) { return read.Text("--transformer-impl", "transformer_engine") == "local"; }

// Returns the part that a module recomputes; nothing if it has nothing to act on here, with a note, or if it
// cannot be read.
std::optional<LayerPart> ReadModule(const Setting& modules, const std::string& name, SettingReader& read) {
  for (const megatron::RecomputeModule& module : megatron::kModules) {
    if (name != module.name) continue;
    if (module.part == LayerPart::kMlp)
      read.NoteOf(modules, fmt::format("names mlp, which computes {}", megatron::kBeyondMlp));
    return module.part;
  }
  if (name == "layernorm") {
    if (IsLocal(read)) return LayerPart::kNorm;
    read.NoteOf(
        modules,
        "names layernorm, which has nothing to act on: in dense layers of Transformer Engine, the norms "
        "belong to the projections behind them");
  } else if (name == "moe" || name == "moe_act" || name == "shared_experts") {
    read.NoteOf(modules, fmt::format("names {}, which has nothing to act on without experts", name));
  } else if (name == "mla_up_proj") {
    read.Fail(modules, "names mla_up_proj, which needs multi-latent attention, which is not modelled");
  } else {
    read.Fail(modules, fmt::format("names the unknown module '{}'; expected core_attn, layernorm, "
                                   "mla_up_proj, mlp, moe, moe_act or shared_experts",
                                   base::Printable(name)));
  }
  return std::nullopt;
}

// Reads the parts that a selective recomputation is of.
LayerParts ReadModules(bool selective, SettingReader& read) {
  const Setting* modules =
      selective ? read.Known(megatron::kRecomputeModules) : read.Find(megatron::kRecomputeModules);
  if (modules == nullptr) return LayerOptions().recompute_parts;
  LayerParts parts;
  if (!selective) {
    read.NoteOf(*modules,
                fmt::format("has no effect without {} {}", kMegatronNames.recompute, kSelectiveRecompute));
    return parts;
  }
  for (const std::string& name : modules->values) {
    if (const std::optional<LayerPart> part = ReadModule(*modules, name, read)) parts.Add(*part);
  }
  if (modules->values.empty()) read.NoteOf(*modules, "names no module: read as recompute=none");
  return parts;
}

// --recompute-activations is another name of --recompute-granularity selective.
void ReadRecompute(SettingReader& read, RunDraft& run) {
  constexpr std::string_view kSelectively = "--recompute-activations";
  const Setting* selective = read.Flag(kSelectively) ? read.Find(kSelectively) : nullptr;
  const std::string granularity =
      read.Text(kMegatronNames.recompute, selective != nullptr ? kSelectiveRecompute : "");
  const bool other = granularity != kSelectiveRecompute;
  const LayerParts parts = ReadModules(!other, read);
  if (selective != nullptr) {
    const Setting* method = read.Known(kMegatronNames.recompute_method);
    if (other || method != nullptr) {
      const Setting& against = other ? *read.Find(kMegatronNames.recompute) : *method;
      read.FailAgainst(against, *selective, "; leave one of them out");
      return;
    }
  }
  ReadCoreRecompute(kMegatronNames, parts, read, run);
  if (selective != nullptr && !read.Has(kMegatronNames.recompute)) SetSelective(*selective, parts, read, run);
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

// Returns the tokens of a window, the token itself included; 0: all before it.
std::int64_t ReadWindow(SettingReader& read) {
  const Setting* window = read.Known(megatron::kWindow);
  if (window == nullptr) return 0;
  std::string text = fmt::format("{}", fmt::join(window->values, ","));
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == ' '; });
  const std::size_t comma = text.find(',');
  const auto before = base::ParseNumber<std::int64_t>(std::string_view(text).substr(0, comma));
  const bool causal =
      comma != std::string::npos && (text.substr(comma) == ",0" || text.substr(comma) == ",-1");
  if (before && causal && *before >= -1 && *before < kMostSize) return *before + 1;
  read.Fail(*window, fmt::format("is {}; only N,0 can be read: the tokens before a token, and none after it",
                                 base::Printable(text)));
  return 0;
}

// Lists of layers are not whole numbers, and refused.
void ReadKinds(SettingReader& read, ModelSpec& model) {
  LayerPattern pattern{.sliding_window = ReadWindow(read)};
  const std::int64_t full = read.Whole(megatron::kWindowPattern, 0);
  const std::int64_t without = read.Whole(megatron::kNoRopeInterval, 0);
  if (full == 1) pattern.sliding_window = 0;
  if (pattern.sliding_window != 0) pattern.sliding_window_pattern = full;
  if (model.position == Position::kRope) pattern.no_rope_layer_interval = without;
  if (const absl::Status status = ApplyPattern(pattern, model); !status.ok())
    read.Fail(std::string(status.message()));
}

void ReadModel(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  ModelSpec& model = run.model;
  ReadCoreModel(kMegatronNames, read, run);
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
  const bool swiglu = read.Flag(megatron::kSwiGlu);
  const std::int64_t gated = model.hidden * 4 * 2 / 3 / 64 * 64;
  model.ffn_hidden =
      read.Whole(kMegatronNames.ffn_hidden, swiglu ? std::max<std::int64_t>(gated, 64) : 4 * model.hidden);
  const std::int64_t groups = read.Whole(kMegatronNames.kv_heads, 1);
  model.kv_heads = read.Flag(megatron::kGroupedQueries) ? groups : model.heads;
  const bool biases = !read.Flag(megatron::kNoBiases);
  SetBiases(model, biases);
  if (read.Flag(megatron::kQkvBiases)) model.qkv_bias = true;
  // Its kernel that adds the biases takes the tanh form.
  model.activation = swiglu ? Activation::kSwiGlu : biases ? Activation::kGelu : Activation::kGeluErf;
  model.tied_embeddings = !read.Flag(megatron::kUntied);
  ReadVocab(options, read, run);
}

}  // namespace

void ReadMegatron(const ReadingOptions& options, SettingReader& read, RunDraft& run) {
  if (!options.model)
    read.RefuseIfOn("--use-checkpoint-args", "the model stands in a checkpoint; give --model");
  ReadRanks({.nodes = kLaunchNodes, .ranks_of_node = kLaunchRanks}, options, read, run);
  run.workload.seq_len = options.seq_len > 0 ? options.seq_len : read.Required(kMegatronNames.seq_len);
  if (options.model) {
    run.model = *options.model;
  } else {
    ReadModel(options, read, run);
  }
  ReadPrecision(read, run);
  ReadCorePlan(kMegatronNames, options, read, run);
  if (IsLocal(read)) {  // its attention stores scores (core/transformer/dot_product_attention.py)
    run.plan.attention = Attention::kUnfused;
    std::erase(run.unsaid, "attention");
  }
  ReadStages(read, run);
  ReadUnevenEnds(read, run);
  ReadRecompute(read, run);
  ReadStates(read, run);
  if (const Setting* ramp = read.Find("--rampup-batch-size"))
    read.NoteOf(*ramp, fmt::format("is left out: the batch is the last one, {} sequences",
                                   run.workload.global_batch));
}

}  // namespace autocfg
