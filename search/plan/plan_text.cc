#include "search/plan/plan_text.h"

#include <algorithm>
#include <vector>

#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

absl::Status Bad(std::string_view problem) {
  return base::SubjectError(absl::StatusCode::kInvalidArgument, "plan", problem);
}

absl::Status BadOption(std::string_view name, std::string_view problem) {
  return base::OptionError(absl::StatusCode::kInvalidArgument, "plan", name, problem);
}

using Column = std::string_view PlanOption::*;

std::vector<std::string> NamesIn(Column column, PlanOptionTable options) {
  std::vector<std::string> names;
  for (const PlanOption& option : options) names.emplace_back(option.*column);
  return names;
}

std::string_view WithoutBlanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

std::string SuggestOption(std::string_view name, Column own, Column other, PlanOptionTable options) {
  const auto of_option = [&](std::string_view known) -> std::string {
    for (const PlanOption& option : options) {
      if (option.*other == known) return fmt::format("; did you mean {}?", option.*own);
    }
    return "";
  };
  if (std::string exact = of_option(name); !exact.empty()) return exact;
  if (std::string near = base::DidYouMean(name, NamesIn(own, options)); !near.empty()) return near;
  const std::vector<std::string> near = base::NearestNames(name, NamesIn(other, options));
  if (!near.empty()) return of_option(near.front());
  return fmt::format("; expected {}", base::ChoiceText(NamesIn(own, options)));
}

void SetPlanDefaults(const std::set<std::string_view>& named, PlanOptionTable options, ParallelPlan& plan) {
  const PlanOption* schedule = FindPlanOption("schedule", options);
  if (schedule != nullptr && !named.contains(schedule->name)) SetDependentDefaults(plan);
  DropRestatedDefaults(plan);
}

absl::Status SetPlanOption(ParallelPlan& plan, std::string_view name, std::string_view value,
                           PlanOptionTable options) {
  for (const PlanOption& option : options) {
    if (option.name == name) return option.parse(option, value, plan);
  }
  return BadOption(name,
                   fmt::format("unknown option {}{}", base::Printable(name),
                               SuggestOption(name, &PlanOption::name, &PlanOption::json_name, options)));
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
      return Bad(fmt::format("'{}' {}; write tp=2,pp=1", base::Printable(part.empty() ? text : part),
                             part.empty() ? "has an empty part" : "is not of the form option=value"));
    }
    const std::string_view name = part.substr(0, equals);
    if (absl::Status status = SetPlanOption(plan, name, part.substr(equals + 1), options); !status.ok())
      return status;
    if (!named.insert(name).second)
      return BadOption(name, fmt::format("{} is named twice; give it once", name));
  }
  SetPlanDefaults(named, options, plan);
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

}  // namespace autocfg
