#include "search/frameworks/said_options.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/frameworks/framework_rules.h"
#include "search/frameworks/option_names.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

// The setting that says an option, to name its line.
struct SayingSetting {
  std::string_view framework, option, setting;
};

constexpr SayingSetting kSaying[] = {
    {kMegatron, "tp", kMegatronNames.tp},
    {kMegatron, "pp", kMegatronNames.pp},
    {kMegatron, "mbs", kMegatronNames.micro_batch},
    {kMegatron, "recompute", kMegatronNames.recompute},
    {kMegatron, "attention", kMegatronNames.attention},
    {kMegatron, "sp", kMegatronNames.sp},
    {kMegatron, "zero", megatron::kShardsStates},
    {kNemo, "tp", kNemoNames.tp},
    {kNemo, "pp", kNemoNames.pp},
    {kNemo, "mbs", kNemoNames.micro_batch},
    {kNemo, "recompute", kNemoNames.recompute},
    {kNemo, "attention", kNemoNames.attention},
    {kNemo, "sp", kNemoNames.sp},
    {kNemo, "zero", nemo::kOptimizer},
    {kDeepSpeed, "tp", deepspeed::kTp},
    {kDeepSpeed, "pp", deepspeed::kPp},
    {kDeepSpeed, "mbs", deepspeed::kMicroBatch},
    {kDeepSpeed, "recompute", deepspeed::kRecompute},
    {kDeepSpeed, "zero", deepspeed::kStage},
    {kTorchtitan, "tp", torchtitan::kTp},
    {kTorchtitan, "pp", torchtitan::kPp},
    {kTorchtitan, "mbs", torchtitan::kLocalBatch},
    {kTorchtitan, "recompute", torchtitan::kRecompute},
    {kTorchtitan, "zero", torchtitan::kReshard},
};

void FailOf(std::string_view framework, const PlanOption& option, const std::string& value,
            SettingReader& read, const RunDraft& run) {
  const std::string file_says = fmt::format("{}={}", option.name, option.print(run.plan));
  for (const SayingSetting& saying : kSaying) {
    if (saying.framework != framework || saying.option != option.name) continue;
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

void ApplySaidOptions(std::string_view framework, const std::map<std::string, std::string>& said,
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
      FailOf(framework, *option, value, read, run);
    }
  }
}

}  // namespace autocfg
