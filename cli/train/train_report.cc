#include "cli/train/train_report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/statistics.h"
#include "base/text.h"
#include "cli/report/results_json.h"
#include "cli/terminal/drawing.h"
#include "fmt/format.h"
#include "search/cost/predict_plan.h"
#include "search/text/model_json.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

Json SliceJson(const RunDescription& run) {
  if (!run.slice) return nullptr;
  return {{"tensor", run.slice->tensor()}, {"pipeline", run.slice->pipeline()}};
}

std::string SliceReport(const TrainSummary& summary, const RunDescription& run) {
  std::vector<double> steady = summary.step_time_s;
  if (steady.size() > 1) steady.erase(steady.begin());
  const std::string emulated = run.emulated.empty() ? "" : fmt::format(", emulating {}", run.emulated);
  const std::string whole = run.ranks == 1 ? "its only rank" : fmt::format("one of its {} ranks", run.ranks);
  if (steady.empty()) {
    return fmt::format(
        "plan: {} on {}; {} alone, a slice: tensor {}, pipeline {}; nothing was computed\n"
        "memory of this rank: {} planned\n",
        run.plan, Name(run.device), whole, run.slice->tensor(), run.slice->pipeline(),
        base::BytesText(summary.planned_memory_bytes));
  }
  return fmt::format(
      "\nplan: {} on {}{}; {} ran alone, a slice: tensor {}, pipeline {}\n"
      "step: {} (the slice's, median step{}; its losses are meaningless)\n"
      "memory of this rank: {} planned, {} of them used, {} beside them\n",
      run.plan, Name(run.device), emulated, whole, run.slice->tensor(), run.slice->pipeline(),
      base::SecondsText(base::Median(steady)), summary.step_time_s.size() > 1 ? ", without the first" : "",
      base::BytesText(summary.planned_memory_bytes), base::BytesText(summary.peak_memory_bytes),
      base::BytesText(summary.device_overhead_bytes));
}

// Drops the sign that a NaN may have.
std::string NumberText(double value, int digits) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, digits);
}

}  // namespace

absl::StatusOr<TrainSummary> SummaryOf(const worker::JobResult& result, const Workload& workload) {
  TrainSummary summary;
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    const auto& last = result.ranks[rank].last;
    if (!last.has_train_result())
      return absl::InternalError(fmt::format("rank {} ended without a result; please report it", rank));
    const auto& train = last.train_result();
    if (rank == 0) {
      summary.losses.assign(train.losses().begin(), train.losses().end());
      summary.grad_norms.assign(train.grad_norms().begin(), train.grad_norms().end());
      summary.step_time_s.assign(static_cast<std::size_t>(train.step_time_s_size()), 0);
    }
    if (static_cast<std::size_t>(train.step_time_s_size()) != summary.step_time_s.size()) {
      return absl::InternalError(fmt::format("rank {} timed {} steps, rank 0 {}; please report it", rank,
                                             train.step_time_s_size(), summary.step_time_s.size()));
    }
    for (std::size_t i = 0; i < summary.step_time_s.size(); ++i) {
      summary.step_time_s[i] = std::max(summary.step_time_s[i], train.step_time_s(static_cast<int>(i)));
    }
    summary.planned_memory_bytes =
        std::max(summary.planned_memory_bytes, train.planned_memory_bytes().total());
    summary.peak_memory_bytes = std::max(summary.peak_memory_bytes, train.peak_memory_bytes());
    summary.device_overhead_bytes = std::max(summary.device_overhead_bytes, train.device_overhead_bytes());
  }
  std::vector<double> steady = summary.step_time_s;
  if (steady.size() > 1) steady.erase(steady.begin());
  if (!steady.empty()) summary.tokens_per_s = TokensPerSecond(workload, base::Median(steady));
  return summary;
}

std::string Divergence(const TrainSummary& summary) {
  for (std::size_t i = 0; i < std::max(summary.losses.size(), summary.grad_norms.size()); ++i) {
    if (i < summary.losses.size() && !std::isfinite(summary.losses[i]))
      return fmt::format("step {}: the loss is {}", i + 1, NumberText(summary.losses[i], 6));
    if (i < summary.grad_norms.size() && !std::isfinite(summary.grad_norms[i]))
      return fmt::format("step {}: the gradient norm is {}", i + 1, NumberText(summary.grad_norms[i], 6));
  }
  return "";
}

nlohmann::ordered_json TrainJson(const TrainSummary& summary, const RunDescription& run) {
  return {{"losses", summary.losses},
          {"grad_norms", summary.grad_norms},
          {"step_time_s", summary.step_time_s},
          {"tokens_per_s", summary.tokens_per_s ? Json(*summary.tokens_per_s) : Json(nullptr)},
          {"planned_memory_bytes", summary.planned_memory_bytes},
          {"peak_memory_bytes", summary.peak_memory_bytes},
          {"device_overhead_bytes", summary.device_overhead_bytes},
          {"plan", run.plan},
          {"device", std::string(Name(run.device))},
          {"cluster", run.emulated.empty() ? Json(nullptr) : Json(run.emulated)},
          {"slice", SliceJson(run)},
          {"model", ModelJson(run.model)},
          {"workload", WorkloadJson(run.workload)},
          {"versions", VersionsJson(run.device)}};
}

std::string TrainReport(const TrainSummary& summary, const RunDescription& run) {
  if (run.slice) return SliceReport(summary, run);
  if (summary.tokens_per_s && !run.emulated.empty()) {
    return fmt::format(
        "\nplan: {} on {}, {} rank{}, emulating {}\n"
        "tokens per second: {} (emulated: every op took its modelled time)\n"
        "memory of the worst rank: {} planned\n",
        run.plan, Name(run.device), run.ranks, run.ranks == 1 ? "" : "s", run.emulated,
        base::CountText(std::llround(*summary.tokens_per_s)), base::BytesText(summary.planned_memory_bytes));
  }
  if (!summary.tokens_per_s) {
    return fmt::format(
        "plan: {} on {}, {} rank{}; nothing was computed\n"
        "memory of the worst rank: {} planned\n",
        run.plan, Name(run.device), run.ranks, run.ranks == 1 ? "" : "s",
        base::BytesText(summary.planned_memory_bytes));
  }
  return fmt::format(
      "\nplan: {} on {}, {} rank{}\n"
      "tokens per second: {} (measured, median step{})\n"
      "memory of the worst rank: {} planned, {} of them used, {} beside them\n",
      run.plan, Name(run.device), run.ranks, run.ranks == 1 ? "" : "s",
      base::CountText(std::llround(*summary.tokens_per_s)),
      summary.step_time_s.size() > 1 ? ", without the first" : "",
      base::BytesText(summary.planned_memory_bytes), base::BytesText(summary.peak_memory_bytes),
      base::BytesText(summary.device_overhead_bytes));
}

TrainDisplay::TrainDisplay(bool json, bool computes, std::int64_t steps, const Workload& workload)
    : json_(json),
      computes_(computes),
      terminal_(CanDraw(STDERR_FILENO)),
      steps_(steps),
      workload_(workload) {}

void TrainDisplay::Step(int rank, const v1::Progress& progress) {
  if (rank != 0 || !computes_) return;
  if (json_) {
    if (!terminal_) return;
    begun_ = true;
    fmt::print(stderr, "\rstep {} of {}, loss {}   ", progress.step(), steps_,
               NumberText(progress.loss(), 4));
    std::fflush(stderr);
    return;
  }
  if (!begun_)
    fmt::print("{:>8}  {:>12}  {:>12}  {:>10}  {:>12}\n", "step", "loss", "grad norm", "time", "tokens/s");
  begun_ = true;
  fmt::print("{:>8}  {:>12}  {:>12}  {:>10}  {:>12}\n", progress.step(), NumberText(progress.loss(), 6),
             NumberText(progress.grad_norm(), 6), base::SecondsText(progress.step_time_s()),
             base::CountText(std::llround(TokensPerSecond(workload_, progress.step_time_s()))));
  std::fflush(stdout);
}

void TrainDisplay::End() {
  if (json_ && begun_) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace autocfg::cli
