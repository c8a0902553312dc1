#include "search/text/plan_json.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

absl::Status BadPlanJson(std::string_view problem) {
  return base::SubjectError(absl::StatusCode::kInvalidArgument, "plan", problem);
}

absl::Status BadJsonOption(std::string_view name, std::string_view problem) {
  return base::OptionError(absl::StatusCode::kInvalidArgument, "plan", name, problem);
}

const PlanOption* FindByJsonName(std::string_view name, PlanOptionTable options) {
  const auto found =
      std::find_if(options.begin(), options.end(), [&](const PlanOption& o) { return o.json_name == name; });
  return found == options.end() ? nullptr : &*found;
}

// Returns the text form of an option's JSON value. InvalidArgument says what the value must be.
absl::StatusOr<std::string> TextOfJson(const PlanOption& option, const Json& value) {
  const auto bad = [&](std::string_view wanted) {
    return BadJsonOption(
        option.json_name,
        fmt::format("{} must be {}, not {}", option.json_name, wanted,
                    base::Printable(value.dump(-1, ' ', false, Json::error_handler_t::replace))));
  };
  const std::optional<std::int64_t> whole = base::WholeNumber(value);
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
        const std::optional<std::int64_t> count = base::WholeNumber(entry);
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

Json PlanJson(const ParallelPlan& plan, PlanOptionTable options) {
  Json json = Json::object();
  for (const PlanOption& option : options)
    json[std::string(option.json_name)] = JsonOfText(option.form, option.print(plan));
  return json;
}

absl::StatusOr<ParallelPlan> ParsePlanJson(const Json& json, PlanOptionTable options) {
  if (json.is_string()) return ParsePlanText(json.get_ref<const std::string&>(), options);
  if (!json.is_object()) return BadPlanJson("it must be an object or a string such as tp=2,mbs=1");
  ParallelPlan plan;
  std::set<std::string_view> named;
  for (const auto& [key, value] : json.items()) {
    const PlanOption* option = FindByJsonName(key, options);
    if (option == nullptr) {
      return BadJsonOption(
          key, fmt::format("unknown field {}{}", base::Printable(key),
                           SuggestOption(key, &PlanOption::json_name, &PlanOption::name, options)));
    }
    AUTOCFG_ASSIGN_OR_RETURN(const std::string text, TextOfJson(*option, value));
    AUTOCFG_RETURN_IF_ERROR(option->parse(*option, text, plan));
    if (!named.insert(option->name).second)
      return BadJsonOption(key, fmt::format("{} is named twice; give it once", key));
  }
  SetPlanDefaults(named, options, plan);
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
