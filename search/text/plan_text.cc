#include "search/text/plan_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

namespace autocfg {
namespace {

constexpr std::array<std::string_view, 4> kSchedules = {"gpipe", "1f1b", "interleaved", "zb-h1"};
constexpr std::array<std::string_view, 3> kRecomputes = {"none", "selective", "full"};
constexpr std::array<std::string_view, 2> kAttentions = {"fused", "unfused"};
constexpr std::size_t kMaxSplitEntries = 100'000;

// Options in the order in which they are printed: as text, as JSON.
struct OptionNames {
  std::string_view text;
  std::string_view json;
};
constexpr std::array<OptionNames, 16> kOptions = {{
    {"tp", "tp"},
    {"pp", "pp"},
    {"dp", "dp"},
    {"mbs", "micro_batch"},
    {"vpp", "virtual_stages"},
    {"schedule", "schedule"},
    {"split", "split"},
    {"recompute", "recompute"},
    {"attention", "attention"},
    {"sp", "sequence_parallel"},
    {"zero", "zero_stage"},
    {"tp_overlap", "tp_overlap"},
    {"grad_overlap", "grad_overlap"},
    {"param_overlap", "param_overlap"},
    {"p2p_overlap", "p2p_overlap"},
    {"scatter_gather", "scatter_gather"},
}};

absl::Status Bad(std::string_view name, std::string_view value, std::string_view wanted) {
  return absl::InvalidArgumentError(
      fmt::format("plan: {}={} is not valid; it must be {}", name, Printable(value), wanted));
}

// A number in [0, 2^31), digits only.
std::optional<std::int64_t> ParseSize(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '-') return std::nullopt;
  if (value >= std::int64_t{1} << 31) return std::nullopt;
  return value;
}

template <std::size_t N>
std::optional<std::size_t> IndexOf(const std::array<std::string_view, N>& names, std::string_view value) {
  const auto found = std::find(names.begin(), names.end(), value);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

// One of the names, else an error that lists them.
template <typename Enum, std::size_t N>
absl::Status SetNamed(Enum& field, const std::array<std::string_view, N>& names, std::string_view name,
                      std::string_view value) {
  const std::optional<std::size_t> index = IndexOf(names, value);
  if (!index) {
    const std::vector<std::string> known(names.begin(), names.end());
    return absl::InvalidArgumentError(fmt::format("plan: {}={} is not known; it must be one of {}{}", name,
                                                  Printable(value), fmt::join(names, ", "),
                                                  DidYouMeanOfListed(value, known)));
  }
  field = static_cast<Enum>(*index);
  return absl::OkStatus();
}

absl::Status SetSize(std::int64_t& field, std::string_view name, std::string_view value) {
  const std::optional<std::int64_t> size = ParseSize(value);
  if (!size) return Bad(name, value, "a whole number from 1 to 2147483647");
  field = *size;
  return absl::OkStatus();
}

absl::Status SetOneOf(std::int64_t& field, std::initializer_list<std::int64_t> allowed, std::string_view name,
                      std::string_view value) {
  const std::optional<std::int64_t> size = ParseSize(value);
  if (!size || std::find(allowed.begin(), allowed.end(), *size) == allowed.end()) {
    return Bad(name, value, fmt::format("one of {}", fmt::join(allowed, ", ")));
  }
  field = *size;
  return absl::OkStatus();
}

absl::Status SetFlag(bool& field, std::string_view name, std::string_view value) {
  if (value != "0" && value != "1") return Bad(name, value, "0 or 1");
  field = value == "1";
  return absl::OkStatus();
}

absl::Status SetRecompute(ParallelPlan& plan, std::string_view value) {
  plan.recompute_layers = 0;
  if (value.substr(0, 5) != "full:") return SetNamed(plan.recompute, kRecomputes, "recompute", value);
  const std::optional<std::int64_t> layers = ParseSize(value.substr(5));
  if (!layers || *layers == 0) return Bad("recompute", value, "full:K with K at least 1");
  plan.recompute = Recompute::kFull;
  plan.recompute_layers = *layers;
  return absl::OkStatus();
}

absl::Status SetSplit(ParallelPlan& plan, std::string_view value) {
  plan.split_layers.clear();
  if (value == "even" || value == "auto") {
    plan.split = value == "even" ? SplitMode::kEven : SplitMode::kAuto;
    return absl::OkStatus();
  }
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find('+', begin), value.size());
    const std::optional<std::int64_t> layers = ParseSize(value.substr(begin, end - begin));
    if (!layers || *layers == 0 || plan.split_layers.size() == kMaxSplitEntries) {
      return Bad("split", value, "even, auto, or layers per stage such as 9+8+8+7");
    }
    plan.split_layers.push_back(*layers);
    begin = end + 1;
  }
  plan.split = SplitMode::kExplicit;
  return absl::OkStatus();
}

using Column = std::string_view OptionNames::*;

std::vector<std::string> NamesIn(Column column) {
  std::vector<std::string> names;
  for (const OptionNames& option : kOptions) names.emplace_back(option.*column);
  return names;
}

// "; did you mean ...?" for a name that `own` lacks: an option by its name in the `other` column, else what
// is near in the own one, else in the other. Empty where nothing is.
std::string Suggestion(std::string_view name, Column own, Column other) {
  const auto under_its_own_name = [&](std::string_view known) -> std::string {
    for (const OptionNames& option : kOptions) {
      if (option.*other == known) return fmt::format("; did you mean {}?", option.*own);
    }
    return "";
  };
  if (std::string exact = under_its_own_name(name); !exact.empty()) return exact;
  if (std::string near = DidYouMean(name, NamesIn(own)); !near.empty()) return near;
  const std::vector<std::string> near = NearestNames(name, NamesIn(other));
  return near.empty() ? "" : under_its_own_name(near.front());
}

std::string_view WithoutBlanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// The default of schedule depends on another option.
void DefaultSchedule(ParallelPlan& plan) {
  plan.schedule = plan.virtual_stages > 1 ? Schedule::kInterleaved : Schedule::kOneFOneB;
}

// The value of an option in the text form.
std::string ValueText(const ParallelPlan& plan, std::string_view text_name) {
  const auto flag = [](bool value) { return std::string(value ? "1" : "0"); };
  if (text_name == "tp") return fmt::format("{}", plan.tp);
  if (text_name == "pp") return fmt::format("{}", plan.pp);
  if (text_name == "dp") return fmt::format("{}", plan.dp);
  if (text_name == "mbs") return fmt::format("{}", plan.micro_batch);
  if (text_name == "vpp") return fmt::format("{}", plan.virtual_stages);
  if (text_name == "schedule") return std::string(Name(plan.schedule));
  if (text_name == "split") return SplitText(plan);
  if (text_name == "recompute") return RecomputeText(plan);
  if (text_name == "attention") return std::string(Name(plan.attention));
  if (text_name == "sp") return flag(plan.sequence_parallel);
  if (text_name == "zero") return fmt::format("{}", plan.zero_stage);
  if (text_name == "tp_overlap") return fmt::format("{}", plan.tp_overlap);
  if (text_name == "grad_overlap") return flag(plan.grad_overlap);
  if (text_name == "param_overlap") return flag(plan.param_overlap);
  if (text_name == "p2p_overlap") return flag(plan.p2p_overlap);
  return flag(plan.scatter_gather);
}

// The text of a JSON value of an option, in the text form; else InvalidArgument, which says what its value
// is.
absl::StatusOr<std::string> JsonValueText(const OptionNames& option, const nlohmann::ordered_json& value) {
  constexpr std::array<std::string_view, 4> kNames = {"schedule", "split", "recompute", "attention"};
  constexpr std::array<std::string_view, 5> kFlags = {"sp", "grad_overlap", "param_overlap", "p2p_overlap",
                                                      "scatter_gather"};
  const auto bad = [&](std::string_view wanted) {
    return absl::InvalidArgumentError(
        fmt::format("plan: {} must be {}, not {}", option.json, wanted,
                    Printable(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))));
  };
  const std::optional<std::int64_t> whole = WholeNumber(value);
  if (option.text == "split" && value.is_array()) {
    std::vector<std::int64_t> layers;
    for (const auto& entry : value) {
      const std::optional<std::int64_t> count = WholeNumber(entry);
      if (!count) return bad("a list of whole numbers, the layers of each stage");
      layers.push_back(*count);
    }
    return fmt::format("{}", fmt::join(layers, "+"));
  }
  if (option.text == "split" && !value.is_string())
    return bad(
        "even, auto or the layers of each stage, as text such as \"9+8+8+7\" or as a list such as [9, 8, 8, "
        "7]");
  if (IndexOf(kNames, option.text)) {
    if (!value.is_string()) return bad("a string");
    return value.get<std::string>();
  }
  if (IndexOf(kFlags, option.text)) {
    if (value.is_boolean()) return std::string(value.get<bool>() ? "1" : "0");
    if (!whole) return bad("0, 1, true or false");
  }
  if (!whole) return bad("a whole number");
  return fmt::format("{}", *whole);
}

}  // namespace

std::string_view Name(Schedule schedule) { return kSchedules[static_cast<std::size_t>(schedule)]; }
std::string_view Name(Attention attention) { return kAttentions[static_cast<std::size_t>(attention)]; }

std::string RecomputeText(const ParallelPlan& plan) {
  const std::string_view name = kRecomputes[static_cast<std::size_t>(plan.recompute)];
  if (plan.recompute == Recompute::kFull && plan.recompute_layers != 0) {
    return fmt::format("{}:{}", name, plan.recompute_layers);
  }
  return std::string(name);
}

std::string SplitText(const ParallelPlan& plan) {
  switch (plan.split) {
    case SplitMode::kEven: return "even";
    case SplitMode::kAuto: return "auto";
    case SplitMode::kExplicit: return fmt::format("{}", fmt::join(plan.split_layers, "+"));
  }
  return "even";
}

absl::Status SetPlanOption(ParallelPlan& plan, std::string_view name, std::string_view value) {
  if (name == "tp") return SetSize(plan.tp, name, value);
  if (name == "pp") return SetSize(plan.pp, name, value);
  if (name == "dp") return SetSize(plan.dp, name, value);
  if (name == "mbs") return SetSize(plan.micro_batch, name, value);
  if (name == "vpp") return SetSize(plan.virtual_stages, name, value);
  if (name == "schedule") return SetNamed(plan.schedule, kSchedules, name, value);
  if (name == "split") return SetSplit(plan, value);
  if (name == "recompute") return SetRecompute(plan, value);
  if (name == "attention") return SetNamed(plan.attention, kAttentions, name, value);
  if (name == "sp") return SetFlag(plan.sequence_parallel, name, value);
  if (name == "zero") return SetOneOf(plan.zero_stage, {0, 1, 2}, name, value);
  if (name == "tp_overlap") return SetOneOf(plan.tp_overlap, {1, 2, 4, 8}, name, value);
  if (name == "grad_overlap") return SetFlag(plan.grad_overlap, name, value);
  if (name == "param_overlap") return SetFlag(plan.param_overlap, name, value);
  if (name == "p2p_overlap") return SetFlag(plan.p2p_overlap, name, value);
  if (name == "scatter_gather") return SetFlag(plan.scatter_gather, name, value);
  return absl::InvalidArgumentError(fmt::format("plan: unknown option {}{}", Printable(name),
                                                Suggestion(name, &OptionNames::text, &OptionNames::json)));
}

absl::StatusOr<ParallelPlan> ParsePlanText(std::string_view text) {
  if (WithoutBlanks(text).empty())
    return absl::InvalidArgumentError("plan: it is empty; give it as tp=2,pp=1,dp=2,mbs=1");
  ParallelPlan plan;
  std::set<std::string_view> named;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = WithoutBlanks(text.substr(begin, end - begin));
    begin = end + 1;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return absl::InvalidArgumentError(fmt::format("plan: {} is not of the form option=value",
                                                    part.empty() ? "an empty part" : Printable(part)));
    }
    const std::string_view name = part.substr(0, equals);
    if (absl::Status status = SetPlanOption(plan, name, part.substr(equals + 1)); !status.ok()) return status;
    if (!named.insert(name).second)
      return absl::InvalidArgumentError(fmt::format("plan: {} is named twice", name));
  }
  if (!named.contains("schedule")) DefaultSchedule(plan);
  return plan;
}

std::string ShortPlanText(const ParallelPlan& plan) {
  constexpr std::size_t kLongest = 160;
  std::string text = PlanText(plan);
  if (text.size() > kLongest) text.replace(kLongest, std::string::npos, "...");
  return text;
}

std::string PlanText(const ParallelPlan& plan) {
  ParallelPlan defaults;
  defaults.virtual_stages = plan.virtual_stages;
  DefaultSchedule(defaults);
  defaults.virtual_stages = 1;
  std::string text;
  for (std::size_t i = 0; i < kOptions.size(); ++i) {
    const std::string_view name = kOptions[i].text;
    std::string value = ValueText(plan, name);
    const bool always = i < 4;  // tp, pp, dp, mbs
    if (always || value != ValueText(defaults, name))
      text += fmt::format("{}{}={}", i == 0 ? "" : ",", name, value);
  }
  return text;
}

nlohmann::ordered_json PlanJson(const ParallelPlan& plan) {
  return {
      {"tp", plan.tp},
      {"pp", plan.pp},
      {"dp", plan.dp},
      {"micro_batch", plan.micro_batch},
      {"virtual_stages", plan.virtual_stages},
      {"schedule", Name(plan.schedule)},
      {"split", SplitText(plan)},
      {"recompute", RecomputeText(plan)},
      {"attention", Name(plan.attention)},
      {"sequence_parallel", plan.sequence_parallel ? 1 : 0},
      {"zero_stage", plan.zero_stage},
      {"tp_overlap", plan.tp_overlap},
      {"grad_overlap", plan.grad_overlap ? 1 : 0},
      {"param_overlap", plan.param_overlap ? 1 : 0},
      {"p2p_overlap", plan.p2p_overlap ? 1 : 0},
      {"scatter_gather", plan.scatter_gather ? 1 : 0},
  };
}

absl::StatusOr<ParallelPlan> ParsePlanJson(const nlohmann::ordered_json& json) {
  if (json.is_string()) return ParsePlanText(json.get_ref<const std::string&>());
  if (!json.is_object())
    return absl::InvalidArgumentError("plan: it must be an object or a string such as tp=2,mbs=1");
  ParallelPlan plan;
  std::set<std::string> named;
  for (const auto& [key, value] : json.items()) {
    const auto option =
        std::find_if(kOptions.begin(), kOptions.end(), [&](const auto& o) { return o.json == key; });
    if (option == kOptions.end()) {
      return absl::InvalidArgumentError(fmt::format("plan: unknown field {}{}", Printable(key),
                                                    Suggestion(key, &OptionNames::json, &OptionNames::text)));
    }
    const absl::StatusOr<std::string> text = JsonValueText(*option, value);
    if (!text.ok()) return text.status();
    if (absl::Status status = SetPlanOption(plan, option->text, *text); !status.ok()) return status;
    if (!named.insert(key).second)
      return absl::InvalidArgumentError(fmt::format("plan: {} is named twice", key));
  }
  if (!named.contains("schedule")) DefaultSchedule(plan);
  return plan;
}

}  // namespace autocfg
