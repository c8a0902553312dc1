#include "search/text/plan_text.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/subject.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

absl::Status Bad(std::string_view problem) {
  return SubjectError(absl::StatusCode::kInvalidArgument, "plan", problem);
}

absl::Status BadOption(std::string_view name, std::string_view problem) {
  return OptionError(absl::StatusCode::kInvalidArgument, "plan", name, problem);
}

using Column = std::string_view PlanOption::*;

std::vector<std::string> NamesIn(Column column, PlanOptionTable options) {
  std::vector<std::string> names;
  for (const PlanOption& option : options) names.emplace_back(option.*column);
  return names;
}

// "; did you mean ...?" for a name that is not in the column `own`: the option of this name in the `other`
// column, else the nearest name in `own`, else the nearest in `other`. Empty if nothing is near.
std::string Suggestion(std::string_view name, Column own, Column other, PlanOptionTable options) {
  const auto of_option = [&](std::string_view known) -> std::string {
    for (const PlanOption& option : options) {
      if (option.*other == known) return fmt::format("; did you mean {}?", option.*own);
    }
    return "";
  };
  if (std::string exact = of_option(name); !exact.empty()) return exact;
  if (std::string near = DidYouMean(name, NamesIn(own, options)); !near.empty()) return near;
  const std::vector<std::string> near = NearestNames(name, NamesIn(other, options));
  return near.empty() ? "" : of_option(near.front());
}

std::string_view WithoutBlanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

const PlanOption* FindBy(Column column, std::string_view name, PlanOptionTable options) {
  const auto found =
      std::find_if(options.begin(), options.end(), [&](const PlanOption& o) { return o.*column == name; });
  return found == options.end() ? nullptr : &*found;
}

bool IsSet(const std::set<std::string_view>& named, const PlanOption* option) {
  return option != nullptr && named.contains(option->name);
}

// Sets schedule's default unless it is named. Tables without schedule have no such default.
void SetDefaults(const std::set<std::string_view>& named, PlanOptionTable options, ParallelPlan& plan) {
  const PlanOption* schedule = FindPlanOption("schedule", options);
  if (schedule != nullptr && !IsSet(named, schedule)) SetDependentDefaults(plan);
}

// Returns the text form of an option's JSON value. InvalidArgument says what the value must be.
absl::StatusOr<std::string> TextOfJson(const PlanOption& option, const Json& value) {
  const auto bad = [&](std::string_view wanted) {
    return BadOption(option.json_name,
                     fmt::format("{} must be {}, not {}", option.json_name, wanted,
                                 Printable(value.dump(-1, ' ', false, Json::error_handler_t::replace))));
  };
  const std::optional<std::int64_t> whole = WholeNumber(value);
  switch (option.form) {
    case OptionForm::kSplit: {
      if (value.is_string()) return value.get<std::string>();
      if (!value.is_array()) {
        return bad(
            "even, auto or the layers of each stage, as text such as \"9+8+8+7\" or as a list such as [9, 8, "
            "8, 7]");
      }
      std::vector<std::int64_t> layers;
      for (const Json& entry : value) {
        const std::optional<std::int64_t> count = WholeNumber(entry);
        if (!count) return bad("a list of whole numbers, the layers of each stage");
        layers.push_back(*count);
      }
      return fmt::format("{}", fmt::join(layers, "+"));
    }
    case OptionForm::kName:
      if (!value.is_string()) return bad("a string");
      return value.get<std::string>();
    case OptionForm::kFlag:
      if (value.is_boolean()) return std::string(value.get<bool>() ? "1" : "0");
      if (!whole) return bad("0, 1, true or false");
      break;
    case OptionForm::kSize:
    case OptionForm::kNumber:
      if (!whole) return bad("a whole number");
      break;
  }
  return fmt::format("{}", *whole);
}

Json JsonOfText(OptionForm form, std::string text) {
  if (form == OptionForm::kName || form == OptionForm::kSplit) return text;
  return std::stoll(text);
}

std::string Joined(std::span<const std::string_view> values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

}  // namespace

absl::Status SetPlanOption(ParallelPlan& plan, std::string_view name, std::string_view value,
                           PlanOptionTable options) {
  const PlanOption* option = FindBy(&PlanOption::name, name, options);
  if (option != nullptr) return option->parse(*option, value, plan);
  return BadOption(name, fmt::format("unknown option {}{}", Printable(name),
                                     Suggestion(name, &PlanOption::name, &PlanOption::json_name, options)));
}

absl::StatusOr<ParallelPlan> ParsePlanText(std::string_view text, PlanOptionTable options) {
  if (WithoutBlanks(text).empty()) return Bad("it is empty; give it as tp=2,pp=1,dp=2,mbs=1");
  ParallelPlan plan;
  std::set<std::string_view> named;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = WithoutBlanks(text.substr(begin, end - begin));
    begin = end + 1;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return Bad(fmt::format("{} is not of the form option=value",
                             part.empty() ? "an empty part" : Printable(part)));
    }
    const std::string_view name = part.substr(0, equals);
    if (absl::Status status = SetPlanOption(plan, name, part.substr(equals + 1), options); !status.ok())
      return status;
    if (!named.insert(name).second) return BadOption(name, fmt::format("{} is named twice", name));
  }
  SetDefaults(named, options, plan);
  return plan;
}

std::string ShortPlanText(const ParallelPlan& plan) {
  constexpr std::size_t kLongest = 160;
  std::string text = PlanText(plan);
  if (text.size() > kLongest) text.replace(kLongest, std::string::npos, "...");
  return text;
}

std::string PlanText(const ParallelPlan& plan, PlanOptionTable options) {
  ParallelPlan defaults;
  defaults.virtual_stages = plan.virtual_stages;
  SetDependentDefaults(defaults);
  defaults.virtual_stages = 1;
  std::string text;
  for (const PlanOption& option : options) {
    if (!option.always_printed && option.equal(plan, defaults)) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", option.name, option.print(plan));
  }
  return text;
}

Json PlanJson(const ParallelPlan& plan, PlanOptionTable options) {
  Json json = Json::object();
  for (const PlanOption& option : options)
    json[std::string(option.json_name)] = JsonOfText(option.form, option.print(plan));
  return json;
}

absl::StatusOr<ParallelPlan> ParsePlanJson(const Json& json, PlanOptionTable options) {
  if (json.is_string()) return ParsePlanText(json.get_ref<const std::string&>(), options);
  if (!json.is_object()) return Bad("it must be an object or a string such as tp=2,mbs=1");
  ParallelPlan plan;
  std::set<std::string_view> named;
  for (const auto& [key, value] : json.items()) {
    const PlanOption* option = FindBy(&PlanOption::json_name, key, options);
    if (option == nullptr) {
      return BadOption(key, fmt::format("unknown field {}{}", Printable(key),
                                        Suggestion(key, &PlanOption::json_name, &PlanOption::name, options)));
    }
    const absl::StatusOr<std::string> text = TextOfJson(*option, value);
    if (!text.ok()) return text.status();
    if (absl::Status status = option->parse(*option, *text, plan); !status.ok()) return status;
    if (!named.insert(option->name).second) return BadOption(key, fmt::format("{} is named twice", key));
  }
  SetDefaults(named, options, plan);
  return plan;
}

std::string ValuesText(const PlanOption& option) {
  return option.form == OptionForm::kSize ? "1, 2, ..." : Joined(option.choices);
}

std::string DefaultText(const PlanOption& option) {
  std::string text = option.print(ParallelPlan());
  if (!option.default_note.empty()) text += fmt::format("; {}", option.default_note);
  return text;
}

std::string PlanOptionsHelp(PlanOptionTable options) {
  std::string text;
  for (const PlanOption& option : options) {
    text += fmt::format("  {:<15} {} ({}; default {})\n", option.name, option.summary, ValuesText(option),
                        DefaultText(option));
  }
  return text;
}

std::string PlanOptionsMarkdown(PlanOptionTable options) {
  std::string text =
      "| text | JSON, CSV | meaning | values | default | predicted | run |\n|---|---|---|---|---|---|---|\n";
  for (const PlanOption& option : options) {
    const auto predicted = option.predicted.empty() ? std::string("all") : Joined(option.predicted);
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", option.name, option.json_name,
                        option.summary, ValuesText(option), DefaultText(option), predicted,
                        option.run.empty() ? predicted : Joined(option.run));
  }
  return text;
}

}  // namespace autocfg
