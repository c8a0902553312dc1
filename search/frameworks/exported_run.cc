#include "search/frameworks/exported_run.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/text.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

double TokensPerStep(const Workload& workload) {
  return static_cast<double>(workload.global_batch) * static_cast<double>(workload.seq_len);
}

std::string_view HowKnown(const ExportEvidence& evidence) {
  if (evidence.emulated) return "emulated";
  return evidence.measured ? "measured" : "predicted";
}

std::string StepLine(const ExportEvidence& evidence) {
  std::string line =
      fmt::format("step time: {}, {}", base::SecondsText(evidence.step_time_s), HowKnown(evidence));
  if (evidence.high_s > 0) {
    line += fmt::format(" ({}% interval {} to {})", evidence.measured ? 95 : 90,
                        base::SecondsText(evidence.low_s), base::SecondsText(evidence.high_s));
  }
  if (!evidence.engine.empty()) line += fmt::format(", of the engine {}", evidence.engine);
  if (!evidence.device.empty()) line += fmt::format(", on {}", evidence.device);
  if (!evidence.build.empty()) line += fmt::format(", by autocfg {}", evidence.build);
  return line;
}

std::string ClusterLine(const ExportedRun& run) {
  const std::int64_t ranks = RankCount(run.plan);
  if (run.cluster.groups.empty() && run.ranks_per_node > 0)
    return fmt::format("cluster: unnamed, {} nodes of {} ranks", ranks / run.ranks_per_node,
                       run.ranks_per_node);
  return fmt::format("cluster: {}, {} ranks",
                     run.cluster.name.empty() ? "unnamed" : base::Printable(run.cluster.name), ranks);
}

std::string MemoryLine(const ExportEvidence& evidence) {
  std::string line = fmt::format("memory of the worst rank: {}", base::BytesText(evidence.memory_bytes));
  if (evidence.capacity_bytes > 0) {
    line += fmt::format(" of {}, {} free", base::BytesText(evidence.capacity_bytes),
                        base::BytesText(evidence.capacity_bytes - evidence.memory_bytes));
  }
  return line;
}

}  // namespace

std::int64_t StepsOf(const ExportedRun& run) {
  return static_cast<std::int64_t>(std::ceil(run.tokens / TokensPerStep(run.workload)));
}

std::vector<std::string> EvidenceLines(const ExportedRun& run) {
  const ExportEvidence& evidence = run.evidence;
  std::vector<std::string> lines = {
      fmt::format("plan: {}", PlanText(run.plan)),
      fmt::format("model: {}, {} parameters; {} sequences of {} tokens a step, {}",
                  run.model.name.empty() ? "unnamed" : base::Printable(run.model.name),
                  base::CountText(ParameterCount(run.model)), run.workload.global_batch, run.workload.seq_len,
                  StatesText(run.workload)),
      ClusterLine(run)};
  if (evidence.step_time_s > 0) {
    lines.push_back(StepLine(evidence));
    if (evidence.memory_bytes > 0) lines.push_back(MemoryLine(evidence));
    if (!evidence.runner_up.empty()) {
      lines.push_back(fmt::format("next best plan: {}, {:.1f}% slower", evidence.runner_up,
                                  100 * (evidence.runner_up_step_time_s / evidence.step_time_s - 1)));
    }
    if (run.tokens > 0) {
      constexpr double kSecondsPerDay = 86400;
      lines.push_back(fmt::format("{:.4g} tokens: {:.1f} days without failures and checkpoints", run.tokens,
                                  static_cast<double>(StepsOf(run)) * evidence.step_time_s / kSecondsPerDay));
    }
  }
  if (!evidence.trial.empty()) lines.push_back(fmt::format("trial: {}", base::OneLine(evidence.trial)));
  if (!evidence.study.empty()) lines.push_back(fmt::format("study: {}", base::Printable(evidence.study)));
  return lines;
}

}  // namespace autocfg
