#include "search/plan/plan_text.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/plan/layer_parts/layer_part_names.h"

namespace autocfg {
namespace {

absl::Status BadPlan(std::string_view problem) {
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
  if (base::Trimmed(text).empty()) return BadPlan("it is empty; give it as tp=2,pp=1,dp=2,mbs=1");
  ParallelPlan plan;
  std::set<std::string_view> named;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = base::Trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      if (FindLayerPart(part)) {
        return BadPlan(fmt::format(
            "'{}' is a part of layers: write recompute=selective:{}, with '+' between the names of parts",
            part, part));
      }
      return BadPlan(fmt::format("'{}' {}; write tp=2,pp=1", base::Printable(part.empty() ? text : part),
                                 part.empty() ? "has an empty part" : "is not of the form option=value"));
    }
    const std::string_view name = base::Trimmed(part.substr(0, equals));
    const std::string_view value = base::Trimmed(part.substr(equals + 1));
    AUTOCFG_RETURN_IF_ERROR(SetPlanOption(plan, name, value, options));
    if (!named.insert(name).second)
      return BadOption(name, fmt::format("{} is named twice; give it once", name));
  }
  SetPlanDefaults(named, options, plan);
  return plan;
}

std::string WithShortSplit(std::string_view plan_text) {
  constexpr std::string_view kSplit = ",split=";
  constexpr std::size_t kShortestRun = 3;
  const std::size_t found = plan_text.find(kSplit);
  if (found == std::string_view::npos) return std::string(plan_text);
  const std::size_t begin = found + kSplit.size();
  const std::size_t end = std::min(plan_text.find(',', begin), plan_text.size());
  const std::string_view split = plan_text.substr(begin, end - begin);
  std::vector<std::string_view> stages;
  for (std::size_t at = 0; at <= split.size();) {
    const std::size_t plus = std::min(split.find('+', at), split.size());
    stages.push_back(split.substr(at, plus - at));
    at = plus + 1;
  }
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t next = i;
    while (next < stages.size() && stages[next] == stages[i]) ++next;
    const std::size_t run = next - i;
    if (run >= kShortestRun && stages[i].find('x') == std::string_view::npos) {
      entries.push_back(fmt::format("{}x{}", stages[i], run));
    } else {
      entries.insert(entries.end(), stages.begin() + static_cast<std::ptrdiff_t>(i),
                     stages.begin() + static_cast<std::ptrdiff_t>(next));
    }
    i = next;
  }
  return fmt::format("{}{}{}", plan_text.substr(0, begin), fmt::join(entries, "+"), plan_text.substr(end));
}

std::string ShortPlanText(const ParallelPlan& plan) {
  constexpr std::size_t kLongest = 160;
  std::string text = WithShortSplit(PlanText(plan));
  if (text.size() > kLongest) text.replace(kLongest, std::string::npos, "...");
  return text;
}

std::string MeshText(const MeshOptions& mesh, std::string_view between) {
  std::vector<std::string> sizes;
  for (const PlanOption& option : PlanOptions()) {
    if (const AxisRow* axis = FindAxis(option.name); axis != nullptr)
      sizes.push_back(fmt::format("{}={}", axis->name, mesh.*axis->size));
  }
  return fmt::format("{}", fmt::join(sizes, between));
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
