#include "cli/report/prediction_report.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/report/report.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "search/plan/hardware_flops.h"
#include "search/plan/plan_text.h"

namespace autocfg::cli {

std::string StepTimeText(const Prediction& predicted, std::string_view more) {
  return fmt::format("{} ({} to {}{})", base::SecondsText(predicted.step_time_s),
                     base::SecondsText(predicted.step_time_low_s),
                     base::SecondsText(predicted.step_time_high_s), more);
}

std::string PercentText(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}%", 100 * part / whole) : std::string("-");
}

std::string FlopsText(double flops_per_s) {
  return flops_per_s >= 1e12 ? fmt::format("{:.1f} TFLOP/s", flops_per_s / 1e12)
                             : fmt::format("{:.2f} GFLOP/s", flops_per_s / 1e9);
}

std::string ParametersText(const ModelSpec& model) {
  auto count = static_cast<double>(ParameterCount(model)) / 1e6;
  std::string_view unit = "M";
  for (const std::string_view larger : {"B", "T"}) {
    if (count < 999.5) break;
    count /= 1000;
    unit = larger;
  }
  return fmt::format("{:.3g} {}", count, unit);
}

std::string WorkloadText(const Problem& problem) {
  const Workload& workload = problem.workload;
  return fmt::format("model: {}, {} sequences of {} tokens a step, {}\nparams: {}",
                     problem.model.name.empty() ? "unnamed" : problem.model.name,
                     base::CountText(workload.global_batch), base::CountText(workload.seq_len),
                     StatesText(workload), ParametersText(problem.model));
}

std::string ClusterText(const ClusterSpec& cluster, std::int64_t used) {
  const std::int64_t ranks = RankCount(cluster);
  std::string text = fmt::format("cluster: {}, {} rank{}", cluster.name.empty() ? "unnamed" : cluster.name,
                                 base::CountText(ranks), ranks == 1 ? "" : "s");
  if (used != ranks) text += fmt::format("; the plan uses {}", base::CountText(used));
  return text;
}

std::string PredictionReport(const PlanPrediction& predicted, const SearchQuestion& question) {
  const Prediction& p = predicted.prediction;
  const Throughput& rates = predicted.throughput;
  std::string text = PlanLine("plan:", PlanText(predicted.plan), "predicted");
  const auto total = static_cast<double>(p.memory.Total());
  text += p.feasible ? fmt::format("fits: {} of {} a rank, {}\n", base::BytesText(p.memory.Total()),
                                   base::BytesText(p.capacity_bytes),
                                   PercentText(total, static_cast<double>(p.capacity_bytes)))
                     : Wrapped(fmt::format("does not fit: {}\n", p.reason));
  if (p.memory_low_bytes < p.memory_high_bytes) {
    text += fmt::format("memory: {} to {} (90%)\n", base::BytesText(p.memory_low_bytes),
                        base::BytesText(p.memory_high_bytes));
  }
  text += "\n";
  std::vector<std::vector<std::string>> figures;
  figures.push_back({"step time", StepTimeText(p)});
  figures.push_back(
      {"tokens per second",
       fmt::format("{} a rank, {} in all", base::CountText(std::llround(rates.tokens_per_s_per_gpu)),
                   base::CountText(std::llround(rates.tokens_per_s)))});
  const auto peak = PeakFlops(question.cluster.groups.front().device, question.workload.precision);
  std::string model_flops = fmt::format("{} a rank", FlopsText(rates.model_flops_per_s_per_gpu));
  if (peak && rates.mfu)
    model_flops += fmt::format(", {} of {} (MFU)", PercentText(*rates.mfu, 1), FlopsText(*peak));
  figures.push_back({"model FLOPs", model_flops});
  if (rates.hardware_flops_per_s_per_gpu > rates.model_flops_per_s_per_gpu)
    figures.push_back(
        {"with recomputation", fmt::format("{} a rank", FlopsText(rates.hardware_flops_per_s_per_gpu))});
  text += Table(figures, {.heading = false}) + "\n";

  // Time on the left, memory on the right.
  std::vector<std::vector<std::string>> rows = {
      {"where the time goes", "", "", "worst rank's memory", "", ""}};
  std::vector<std::pair<std::string_view, std::int64_t>> regions;
  for (const MemoryRegion& region : kMemoryRegions) {
    if (IsShown(region, p.memory)) regions.emplace_back(region.label, p.memory.*region.bytes);
  }
  const std::int64_t left = p.capacity_bytes - p.memory.Total();
  regions.emplace_back(left >= 0 ? "free" : "too much", std::abs(left));
  for (std::size_t i = 0; i < std::max(kBreakdownParts.size(), regions.size()); ++i) {
    std::vector<std::string>& row = rows.emplace_back(6);
    if (i < kBreakdownParts.size()) {
      const double seconds = p.breakdown.*kBreakdownParts[i].seconds;
      row[0] = fmt::format("  {}", kBreakdownParts[i].label);
      row[1] = base::SecondsText(seconds);
      row[2] = PercentText(seconds, p.step_time_s);
    }
    if (i < regions.size()) {
      const auto [label, bytes] = regions[i];
      row[3] = fmt::format("  {}", label);
      row[4] = base::BytesText(bytes);
      row[5] = PercentText(static_cast<double>(bytes), static_cast<double>(p.capacity_bytes));
    }
  }
  text += Table(rows) + "\n";
  return text + Wrapped(WorkloadText(question) + "\n" +
                        ClusterText(question.cluster, RankCount(predicted.plan)) + "\n");
}

}  // namespace autocfg::cli
