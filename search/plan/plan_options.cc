#include "search/plan/plan_options.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <optional>

#include "base/numbers.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/plan/layer_parts/layer_part_names.h"
#include "search/plan/placement.h"

namespace autocfg {
namespace {

using Choices = std::span<const std::string_view>;

constexpr std::size_t kMaxSplitEntries = 100'000;

// Names of an enum's values, in its order.
template <std::size_t N>
using EnumNames = std::array<std::string_view, N>;

constexpr EnumNames<kScheduleCount> kSchedules = {"gpipe", "1f1b", "interleaved", "zb-h1"};
constexpr EnumNames<kRecomputeCount> kRecomputes = {"none", "selective", "full"};
constexpr EnumNames<kAttentionCount> kAttentions = {"fused", "unfused"};

template <std::size_t N>
constexpr bool AllNamed(const EnumNames<N>& names) {
  return std::none_of(names.begin(), names.end(), [](std::string_view name) { return name.empty(); });
}
static_assert(AllNamed(kSchedules) && AllNamed(kRecomputes) && AllNamed(kAttentions));

// Values in the order of the option's choices.
constexpr std::array<std::string_view, 5> kRecomputeForms = {"none", "selective", "selective:NAMES", "full",
                                                             "full:K"};
constexpr std::array<std::string_view, 3> kSplits = {"even", "auto", "9+8+8+7"};
constexpr std::array<std::string_view, 4> kZeroStages = {"0", "1", "2", "3"};
constexpr std::array<std::string_view, 4> kChunks = {"1", "2", "4", "8"};
constexpr std::array<std::string_view, 2> kFlags = {"0", "1"};

constexpr Choices kEveryValue = {};

absl::Status NotValid(const PlanOption& option, std::string_view value, std::string_view wanted) {
  return base::OptionError(
      absl::StatusCode::kInvalidArgument, "plan", option.name,
      fmt::format("{}={} is not valid; it must be {}", option.name, base::Printable(value), wanted));
}

// A number in [0, 2^31), digits only.
std::optional<std::int64_t> ParseNumber(std::string_view text) {
  return base::ParseNumber<std::int64_t>(text, 0, (std::int64_t{1} << 31) - 1);
}

// The accessors of options that are one field. Legality rejects sizes of 0.
template <auto kField>
std::string PrintNumber(const ParallelPlan& plan) {
  return fmt::format("{}", static_cast<std::int64_t>(plan.*kField));
}

template <auto kField>
absl::Status ParseSize(const PlanOption& option, std::string_view value, ParallelPlan& plan) {
  const std::optional<std::int64_t> size = ParseNumber(value);
  if (!size) return NotValid(option, value, "a whole number from 1 to 2147483647");
  plan.*kField = *size;
  return absl::OkStatus();
}

std::string PrintShard(const ParallelPlan& plan) {
  return fmt::format("{}", plan.dp_shard != 0 ? plan.dp_shard : StateShards(plan));
}

template <auto kField>
absl::Status ParseChoiceOfNumbers(const PlanOption& option, std::string_view value, ParallelPlan& plan) {
  if (std::find(option.choices.begin(), option.choices.end(), value) == option.choices.end())
    return NotValid(option, value, fmt::format("one of {}", fmt::join(option.choices, ", ")));
  plan.*kField = *ParseNumber(value);
  return absl::OkStatus();
}

template <auto kField>
absl::Status ParseFlag(const PlanOption& option, std::string_view value, ParallelPlan& plan) {
  if (value != "0" && value != "1") return NotValid(option, value, "0 or 1");
  plan.*kField = value == "1";
  return absl::OkStatus();
}

// The index of `value` among the option's choices; an error that lists them otherwise.
absl::Status FindChoice(const PlanOption& option, std::string_view value, std::size_t& index) {
  const auto found = std::find(option.choices.begin(), option.choices.end(), value);
  if (found == option.choices.end() || StandsForMany(value)) {
    std::vector<std::string> known(option.choices.begin(), option.choices.end());
    std::erase_if(known, [](const std::string& choice) { return StandsForMany(choice); });
    return base::OptionError(
        absl::StatusCode::kInvalidArgument, "plan", option.name,
        fmt::format("{}={} is not known; it must be one of {}{}", option.name, base::Printable(value),
                    fmt::join(option.choices, ", "), base::DidYouMeanOfListed(value, known)));
  }
  index = static_cast<std::size_t>(found - option.choices.begin());
  return absl::OkStatus();
}

template <auto kField>
absl::Status ParseName(const PlanOption& option, std::string_view value, ParallelPlan& plan) {
  std::size_t index = 0;
  AUTOCFG_RETURN_IF_ERROR(FindChoice(option, value, index));
  plan.*kField = static_cast<std::remove_reference_t<decltype(plan.*kField)>>(index);
  return absl::OkStatus();
}

template <auto kField>
std::string PrintName(const ParallelPlan& plan) {
  return std::string(Name(plan.*kField));
}

template <auto... kFields>
void CopyFields(const ParallelPlan& from, ParallelPlan& to) {
  ((to.*kFields = from.*kFields), ...);
}

template <auto... kFields>
bool EqualFields(const ParallelPlan& a, const ParallelPlan& b) {
  return ((a.*kFields == b.*kFields) && ...);
}

// Parses the parts of selective:NAMES, joined by '+'.
absl::Status ParseLayerParts(const PlanOption& option, std::string_view value, std::string_view names,
                             LayerParts& parts) {
  parts = {};
  const std::string expected = fmt::format("{}", fmt::join(kLayerPartNames, ", "));
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('+', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    begin = end + 1;
    if (name == "experts") {
      return base::OptionError(absl::StatusCode::kUnimplemented, "plan", option.name,
                               fmt::format("{}={} is not supported yet: models with experts are not; use {}",
                                           option.name, base::Printable(value), expected));
    }
    const std::optional<LayerPart> part = FindLayerPart(name);
    if (!part) {
      const std::vector<std::string> all(kLayerPartNames.begin(), kLayerPartNames.end());
      return base::OptionError(
          absl::StatusCode::kInvalidArgument, "plan", option.name,
          fmt::format("{}={} names the part '{}', which is not known; it must be one of {}, or several "
                      "joined by '+'{}",
                      option.name, base::Printable(value), base::Printable(name), expected,
                      base::DidYouMeanOfListed(name, all)));
    }
    if (parts.Has(*part)) return NotValid(option, value, fmt::format("a list that names {} once", name));
    parts.Add(*part);
  }
  return absl::OkStatus();
}

absl::Status ParseRecompute(const PlanOption& option, std::string_view value, ParallelPlan& plan) {
  constexpr std::string_view kFullOf = "full:", kSelectiveOf = "selective:";
  plan.recompute_layers = StageOptions().recompute_layers;
  plan.recompute_parts = LayerOptions().recompute_parts;
  if (const auto name = std::find(kRecomputes.begin(), kRecomputes.end(), value); name != kRecomputes.end()) {
    plan.recompute = static_cast<Recompute>(name - kRecomputes.begin());
    return absl::OkStatus();
  }
  if (value.starts_with(kSelectiveOf) && value != "selective:NAMES") {
    plan.recompute = Recompute::kSelective;
    return ParseLayerParts(option, value, value.substr(kSelectiveOf.size()), plan.recompute_parts);
  }
  if (FindLayerPart(value)) {
    return NotValid(option, value, fmt::format("selective:{}, with '+' between the names of parts", value));
  }
  std::size_t index = 0;
  if (!value.starts_with(kFullOf) || StandsForMany(value)) return FindChoice(option, value, index);
  const std::optional<std::int64_t> layers = ParseNumber(value.substr(kFullOf.size()));
  if (!layers || *layers == 0) return NotValid(option, value, "full:K with K at least 1");
  plan.recompute = Recompute::kFull;
  plan.recompute_layers = *layers;
  return absl::OkStatus();
}

absl::Status ParseSplit(const PlanOption& option, std::string_view value, ParallelPlan& plan) {
  plan.split_layers.clear();
  if (value == "even" || value == "auto") {
    plan.split = value == "even" ? SplitMode::kEven : SplitMode::kAuto;
    return absl::OkStatus();
  }
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find('+', begin), value.size());
    const std::string_view entry = value.substr(begin, end - begin);
    // "2x62": 2 layers in each of 62 stages.
    const std::size_t times = entry.find('x');
    const std::optional<std::int64_t> layers = ParseNumber(entry.substr(0, times));
    const std::optional<std::int64_t> stages = times == std::string_view::npos
                                                   ? std::optional<std::int64_t>(1)
                                                   : ParseNumber(entry.substr(times + 1));
    if (!layers || *layers == 0 || !stages || *stages == 0 ||
        plan.split_layers.size() + static_cast<std::size_t>(*stages) > kMaxSplitEntries)
      return NotValid(option, value, "even, auto, or layers per stage such as 9+8+8+7 or 1+2x62+1");
    plan.split_layers.insert(plan.split_layers.end(), static_cast<std::size_t>(*stages), *layers);
    begin = end + 1;
  }
  plan.split = SplitMode::kExplicit;
  return absl::OkStatus();
}

constexpr std::string_view kIdleAtTp1 = "has nothing to act on at tp=1";
constexpr std::string_view kIdleAtPp1 = "has nothing to act on at pp=1";
constexpr std::string_view kIdleAtDp1 = "has nothing to act on at dp=1";

std::string_view WithoutTensorAxis(const ParallelPlan& plan) { return plan.tp == 1 ? kIdleAtTp1 : ""; }
std::string_view WithoutPipelineAxis(const ParallelPlan& plan) { return plan.pp == 1 ? kIdleAtPp1 : ""; }
std::string_view WithoutDataAxis(const ParallelPlan& plan) { return BatchRanks(plan) == 1 ? kIdleAtDp1 : ""; }

std::string_view RedundantSplit(const ParallelPlan& plan) {
  if (plan.pp == 1 && plan.virtual_stages == 1) return kIdleAtPp1;
  const bool equal = plan.split == SplitMode::kExplicit &&
                     std::adjacent_find(plan.split_layers.begin(), plan.split_layers.end(),
                                        std::not_equal_to<>()) == plan.split_layers.end();
  return equal ? "means split=even" : "";
}

std::string_view RedundantSchedule(const ParallelPlan& plan) {
  return plan.pp == 1 && !TakesVirtualStages(plan.schedule) ? kIdleAtPp1 : "";
}

std::string_view RedundantRecompute(const ParallelPlan& plan) {
  if (plan.recompute != Recompute::kSelective) return "";
  const LayerParts parts = plan.recompute_parts;
  if (parts.Has(LayerPart::kCoreAttention) && plan.attention == Attention::kFused) {
    return parts == LayerParts{LayerPart::kCoreAttention}
               ? "has nothing to act on under attention=fused, which stores no scores"
               : "names core_attn, which has nothing to act on under attention=fused";
  }
  if (parts.Has(LayerPart::kMlp) && parts.Has(LayerPart::kActivation)) return "names act, a part of mlp";
  return parts.IsEmpty() ? "names no part" : "";
}

// Leaves out the parts that RedundantRecompute names.
void SimplifyRecompute(ParallelPlan& plan) {
  if (plan.recompute != Recompute::kSelective) return;
  LayerParts& parts = plan.recompute_parts;
  if (plan.attention == Attention::kFused) parts = parts.Without(LayerPart::kCoreAttention);
  if (parts.Has(LayerPart::kMlp)) parts = parts.Without(LayerPart::kActivation);
  if (parts.IsEmpty()) plan.recompute = Recompute::kNone;
}

std::string_view WithoutShards(const ParallelPlan& plan) {
  if (BatchRanks(plan) == 1) return kIdleAtDp1;
  return plan.dp_shard == 1 ? "has nothing to act on at dp_shard=1" : "";
}

std::string_view RedundantShard(const ParallelPlan& plan) {
  if (plan.zero_stage == 0) return "has nothing to act on at zero=0";
  if (plan.dp_shard == 1) return "shards nothing";
  return plan.dp_shard == BatchRanks(plan) ? "is the default, all of the data axis" : "";
}

std::string_view RedundantScatterGather(const ParallelPlan& plan) {
  if (plan.tp == 1) return kIdleAtTp1;
  if (plan.pp == 1) return kIdleAtPp1;
  return plan.sequence_parallel ? "has nothing to act on at sp=1" : "";
}

// The parts of a row that follow from its field and form.
template <auto kField>
constexpr PlanOption Size(std::string_view name, std::string_view json_name, std::string_view summary) {
  return {.name = name,
          .json_name = json_name,
          .form = OptionForm::kSize,
          .summary = summary,
          .searched = true,
          .print = PrintNumber<kField>,
          .parse = ParseSize<kField>,
          .copy = CopyFields<kField>,
          .equal = EqualFields<kField>};
}

template <auto kField>
constexpr PlanOption Number(std::string_view name, std::string_view json_name, std::string_view summary,
                            Choices choices) {
  PlanOption option = Size<kField>(name, json_name, summary);
  option.form = OptionForm::kNumber;
  option.choices = choices;
  option.predicted = choices.first(1);  // the default
  option.searched = false;
  option.parse = ParseChoiceOfNumbers<kField>;
  return option;
}

template <auto kField>
constexpr PlanOption Flag(std::string_view name, std::string_view json_name, std::string_view summary,
                          std::string_view (*redundant)(const ParallelPlan&)) {
  PlanOption option = Number<kField>(name, json_name, summary, kFlags);
  option.form = OptionForm::kFlag;
  option.parse = ParseFlag<kField>;
  option.redundant = redundant;
  return option;
}

// Returns the row with one property changed.
constexpr PlanOption AlwaysPrinted(PlanOption option) {
  option.always_printed = true;
  return option;
}
constexpr PlanOption RedundantIf(PlanOption option, std::string_view (*redundant)(const ParallelPlan&)) {
  option.redundant = redundant;
  return option;
}

constexpr PlanOption NeedsHiding(PlanOption option) {
  option.needs_hiding = true;
  return option;
}

// Overlap of what a rank keeps whole takes no memory of its own. At zero=0 the gradients are reduced at once
// without it, which may take less time.
bool WithoutGradientOverlap(const ParallelPlan& plan) {
  return !plan.grad_overlap && ShardsStates(plan) && !ShardsGradients(plan);
}
bool WithoutParameterOverlap(const ParallelPlan& plan) {
  return !plan.param_overlap && ShardsStates(plan) && !ShardsParameters(plan);
}

constexpr PlanOption Overlaps(PlanOption option) {
  option.overlaps = true;
  return option;
}

constexpr PlanOption CoveredIf(PlanOption option, bool (*covered)(const ParallelPlan&)) {
  option.covered = covered;
  return option;
}

constexpr PlanOption Derived(PlanOption option) {
  option.derived = true;
  return option;
}

// Predicted and run with every value, and searched by default.
constexpr PlanOption Searched(PlanOption option) {
  option.predicted = kEveryValue;
  option.searched = true;
  return option;
}

constexpr PlanOption kOptions[] = {
    AlwaysPrinted(Size<&ParallelPlan::tp>("tp", "tp", "ranks that split each layer (tensor axis)")),
    AlwaysPrinted(Size<&ParallelPlan::pp>("pp", "pp", "ranks that split the layers (pipeline axis)")),
    AlwaysPrinted(Size<&ParallelPlan::dp>("dp", "dp", "ranks that split the batch (data axis)")),
    AlwaysPrinted(Size<&ParallelPlan::micro_batch>("mbs", "micro_batch", "sequences in a microbatch")),
    Size<&ParallelPlan::virtual_stages>("vpp", "virtual_stages", "stages of each pipeline rank"),
    {.name = "schedule",
     .json_name = "schedule",
     .form = OptionForm::kName,
     .summary = "order of forwards and backwards",
     .choices = kSchedules,
     .default_note = "interleaved if vpp is above 1",
     .predicted = kEveryValue,
     .searched = true,
     .print = PrintName<&ParallelPlan::schedule>,
     .parse = ParseName<&ParallelPlan::schedule>,
     .copy = CopyFields<&ParallelPlan::schedule>,
     .equal = EqualFields<&ParallelPlan::schedule>,
     .redundant = RedundantSchedule},
    {.name = "split",
     .json_name = "split",
     .form = OptionForm::kSplit,
     .summary = "layers of each stage",
     .choices = kSplits,
     .predicted = kEveryValue,
     .searched = true,
     .derived = true,
     .print = SplitText,
     .parse = ParseSplit,
     .copy = CopyFields<&ParallelPlan::split, &ParallelPlan::split_layers>,
     .equal = EqualFields<&ParallelPlan::split, &ParallelPlan::split_layers>,
     .redundant = RedundantSplit},
    {.name = "recompute",
     .json_name = "recompute",
     .form = OptionForm::kName,
     .summary = "activations computed again in the backward; full:K: in the first K layers of every stage; "
                "selective:NAMES: of every layer core_attn, mlp, act and norm, joined by +",
     .choices = kRecomputeForms,
     .predicted = kEveryValue,
     .searched = true,
     .derived = true,
     .print = RecomputeText,
     .parse = ParseRecompute,
     .copy = CopyFields<&ParallelPlan::recompute, &ParallelPlan::recompute_layers,
                        &ParallelPlan::recompute_parts>,
     .equal = EqualFields<&ParallelPlan::recompute, &ParallelPlan::recompute_layers,
                          &ParallelPlan::recompute_parts>,
     .redundant = RedundantRecompute,
     .simplify = SimplifyRecompute},
    {.name = "attention",
     .json_name = "attention",
     .form = OptionForm::kName,
     .summary = "fused stores no scores",
     .choices = kAttentions,
     .predicted = kEveryValue,
     .print = PrintName<&ParallelPlan::attention>,
     .parse = ParseName<&ParallelPlan::attention>,
     .copy = CopyFields<&ParallelPlan::attention>,
     .equal = EqualFields<&ParallelPlan::attention>},
    Searched(Flag<&ParallelPlan::sequence_parallel>(
        "sp", "sequence_parallel", "sequence parallelism over the tensor group", WithoutTensorAxis)),
    {.name = "zero",
     .json_name = "zero_stage",
     .form = OptionForm::kNumber,
     .summary = "states sharded over the data axis: 1 optimizer, 2 and gradients, 3 and parameters",
     .choices = kZeroStages,
     .predicted = kEveryValue,
     .searched = true,
     .print = PrintNumber<&ParallelPlan::zero_stage>,
     .parse = ParseChoiceOfNumbers<&ParallelPlan::zero_stage>,
     .copy = CopyFields<&ParallelPlan::zero_stage>,
     .equal = EqualFields<&ParallelPlan::zero_stage>,
     .redundant = WithoutShards},
    {.name = "dp_shard",
     .json_name = "dp_shard",
     .form = OptionForm::kSize,
     .summary = "ranks that a state is sharded over; the groups of that size hold replicas",
     .default_note = "dp if zero is above 0",
     .print = PrintShard,
     .parse = ParseSize<&ParallelPlan::dp_shard>,
     .copy = CopyFields<&ParallelPlan::dp_shard>,
     .equal = EqualFields<&ParallelPlan::dp_shard>,
     .redundant = RedundantShard},
    Overlaps(Searched(NeedsHiding(RedundantIf(
        Number<&ParallelPlan::tp_overlap>("tp_overlap", "tp_overlap",
                                          "chunks that overlap tensor communication; 1: off", kChunks),
        WithoutTensorAxis)))),
    Overlaps(Searched(NeedsHiding(CoveredIf(
        Flag<&ParallelPlan::grad_overlap>("grad_overlap", "grad_overlap",
                                          "gradient reduction overlaps the backward", WithoutDataAxis),
        WithoutGradientOverlap)))),
    Overlaps(Searched(NeedsHiding(CoveredIf(
        Flag<&ParallelPlan::param_overlap>("param_overlap", "param_overlap",
                                           "parameter gathering overlaps the forward", WithoutShards),
        WithoutParameterOverlap)))),
    Derived(Overlaps(Searched(Flag<&ParallelPlan::p2p_overlap>(
        "p2p_overlap", "p2p_overlap", "messages between stages overlap compute", WithoutPipelineAxis)))),
    Derived(Overlaps(Searched(Flag<&ParallelPlan::scatter_gather>(
        "scatter_gather", "scatter_gather", "each tensor rank sends its share of a message between nodes",
        RedundantScatterGather)))),
};

const ParallelPlan& Defaults() {
  static const ParallelPlan defaults;
  return defaults;
}

// Returns why the option's value changes nothing; empty if it is the default or changes something.
std::string_view WhyRedundant(const PlanOption& option, const ParallelPlan& plan) {
  if (option.redundant == nullptr || option.equal(plan, Defaults())) return "";
  return option.redundant(plan);
}

bool Holds(Choices values, const std::string& value) {
  return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
}

// "use zero=0", "use gpipe, 1f1b or interleaved".
std::string Instead(const PlanOption& option, Choices values) {
  if (values.size() == 1) return fmt::format("use {}={}", option.name, values.front());
  return fmt::format("use {} or {}", fmt::join(values.first(values.size() - 1), ", "), values.back());
}

absl::Status CheckSupported(const ParallelPlan& plan, PlanOptionTable options, bool runs) {
  const ParallelPlan canonical = Canonical(plan, options);
  const auto check = [&](Choices PlanOption::*values, std::string_view problem) {
    for (const PlanOption& option : options) {
      if ((option.*values).empty() || option.equal(canonical, Defaults())) continue;
      const std::string value = option.print(canonical);
      if (Holds(option.*values, value)) continue;
      return base::OptionError(
          absl::StatusCode::kUnimplemented, "plan", option.name,
          fmt::format("{}={} {}; {}", option.name, value, problem, Instead(option, option.*values)));
    }
    return absl::OkStatus();
  };
  AUTOCFG_RETURN_IF_ERROR(check(&PlanOption::predicted, "is not supported yet"));
  if (!runs) return absl::OkStatus();
  return check(&PlanOption::run, "can be predicted, but running it is not supported yet");
}

}  // namespace

PlanOptionTable PlanOptions() { return kOptions; }

const PlanOption* FindPlanOption(std::string_view name, PlanOptionTable options) {
  for (const PlanOption& option : options) {
    if (option.name == name || option.json_name == name) return &option;
  }
  return nullptr;
}

std::vector<std::string> TextNames(PlanOptionTable options) {
  std::vector<std::string> names;
  for (const PlanOption& option : options) names.emplace_back(option.name);
  return names;
}

std::vector<std::string> JsonNames(PlanOptionTable options) {
  std::vector<std::string> names;
  for (const PlanOption& option : options) names.emplace_back(option.json_name);
  return names;
}

void SetDependentDefaults(ParallelPlan& plan) { plan.schedule = DefaultSchedule(plan.virtual_stages); }

void DropRestatedDefaults(ParallelPlan& plan) {
  if (plan.dp_shard == (plan.zero_stage == 0 ? 1 : BatchRanks(plan))) plan.dp_shard = 0;
}

std::string_view Name(Schedule schedule) { return kSchedules[static_cast<std::size_t>(schedule)]; }
std::string_view Name(Attention attention) { return kAttentions[static_cast<std::size_t>(attention)]; }

std::string RecomputeText(const ParallelPlan& plan) {
  const std::string_view name = kRecomputes[static_cast<std::size_t>(plan.recompute)];
  if (plan.recompute == Recompute::kFull && plan.recompute_layers != 0)
    return fmt::format("{}:{}", name, plan.recompute_layers);
  if (plan.recompute != Recompute::kSelective || plan.recompute_parts == Defaults().recompute_parts)
    return std::string(name);
  return fmt::format("{}:{}", name, LayerPartsText(plan.recompute_parts));
}

std::string SplitText(const ParallelPlan& plan) {
  switch (plan.split) {
    case SplitMode::kEven: return "even";
    case SplitMode::kAuto: return "auto";
    case SplitMode::kExplicit: return fmt::format("{}", fmt::join(plan.split_layers, "+"));
  }
  return "even";
}

std::vector<std::string> Notes(const ParallelPlan& plan, PlanOptionTable options) {
  std::vector<std::string> notes;
  for (const PlanOption& option : options) {
    if (const std::string_view why = WhyRedundant(option, plan); !why.empty())
      notes.push_back(fmt::format("{}={} {}", option.name, option.print(plan), why));
  }
  return notes;
}

ParallelPlan Canonical(const ParallelPlan& plan, PlanOptionTable options) {
  ParallelPlan canonical = plan;
  for (const PlanOption& option : options) {
    if (WhyRedundant(option, plan).empty()) continue;
    if (option.simplify != nullptr) {
      option.simplify(canonical);
    } else {
      option.copy(Defaults(), canonical);
    }
  }
  // Fields that the value of their option leaves unused.
  if (canonical.split != SplitMode::kExplicit) canonical.split_layers.clear();
  if (canonical.recompute != Recompute::kFull) canonical.recompute_layers = 0;
  if (canonical.recompute != Recompute::kSelective) canonical.recompute_parts = Defaults().recompute_parts;
  return canonical;
}

absl::Status CheckPredictable(const ParallelPlan& plan, PlanOptionTable options) {
  return CheckSupported(plan, options, /*runs=*/false);
}

absl::Status CheckEngineSupports(const ParallelPlan& plan, PlanOptionTable options) {
  return CheckSupported(plan, options, /*runs=*/true);
}

}  // namespace autocfg
