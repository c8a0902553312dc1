#include "search/frameworks/said_options.h"

#include <algorithm>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

void FailOf(std::span<const SayingSetting> table, const PlanOption& option, const std::string& value,
            SettingReader& read, const RunDraft& run) {
  const std::string file_says = fmt::format("{}={}", option.name, option.print(run.plan));
  for (const SayingSetting& saying : table) {
    if (saying.option != option.name) continue;
    if (const Setting* setting = read.Find(saying.setting)) {
      read.Fail(*setting, fmt::format("says {}, and --plan {}={}; change one of them", file_says, option.name,
                                      base::Printable(value)));
      return;
    }
  }
  read.Fail(
      fmt::format("without a setting of it, the file says {}, and --plan {}={}; add the setting, or "
                  "leave the option out of --plan",
                  file_says, option.name, base::Printable(value)));
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ParseSaidOptions(std::string_view text) {
  std::map<std::string, std::string> said;
  ParallelPlan plan;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      return base::InvalidArgument(
          "plan", fmt::format("'{}' has no value; give one, as in recompute=full", base::Printable(part)));
    }
    const std::string name(part.substr(0, equals)), value(part.substr(equals + 1));
    AUTOCFG_RETURN_IF_ERROR(SetPlanOption(plan, name, value));
    if (!said.emplace(name, value).second)
      return base::InvalidArgument("plan", fmt::format("{} is given twice; leave one out", name));
  }
  return said;
}

void ApplySaidOptions(std::span<const SayingSetting> table, const std::map<std::string, std::string>& said,
                      SettingReader& read, RunDraft& run) {
  for (const auto& [name, value] : said) {
    const PlanOption* option = FindPlanOption(name);
    ParallelPlan other = run.plan;
    if (option == nullptr || !option->parse(*option, value, other).ok()) {
      read.Fail(
          fmt::format("--plan {}={} is no option of a plan", base::Printable(name), base::Printable(value)));
      return;
    }
    const bool open = std::find(run.unsaid.begin(), run.unsaid.end(), name) != run.unsaid.end();
    // The file says that there is an overlap, and not in how many chunks.
    const bool chunks = name == "tp_overlap" && run.plan.tp_overlap > 1 && other.tp_overlap > 1;
    if (open || chunks) {
      option->copy(other, run.plan);
    } else if (!option->equal(other, run.plan)) {
      FailOf(table, *option, value, read, run);
    }
  }
}

}  // namespace autocfg
