#include "cli/train/train_report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/statistics.h"
#include "base/text.h"
#include "cli/report/prediction_report.h"
#include "cli/terminal/drawing.h"
#include "cli/terminal/layout.h"
#include "fmt/format.h"
#include "google/protobuf/repeated_field.h"
#include "proto/answer/answer_json.h"
#include "search/predict/predict_plan.h"
#include "search/text/model_json.h"
#include "search/text/workload_json.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

Json SliceJson(const RunDescription& run) {
  if (!run.slice) return nullptr;
  return {{"tensor", run.slice->tensor()}, {"pipeline", run.slice->pipeline()}};
}

std::vector<double> ListOf(const google::protobuf::RepeatedField<double>& values) {
  return {values.begin(), values.end()};
}

// Returns the times of the steps, without the first if there are more.
std::vector<double> SteadySteps(const v1::TrainResult& result) {
  return {result.step_time_s().begin() + (result.step_time_s_size() > 1 ? 1 : 0), result.step_time_s().end()};
}

std::string SliceReport(const v1::TrainResult& result, const RunDescription& run) {
  const std::vector<double> steady = SteadySteps(result);
  const std::string emulated = run.emulated.empty() ? "" : fmt::format(", emulating {}", run.emulated);
  const std::string whole = run.ranks == 1 ? "its only rank" : fmt::format("one of its {} ranks", run.ranks);
  if (steady.empty()) {
    return fmt::format(
        "plan: {} on {}; {} alone, a slice: tensor {}, pipeline {}; nothing was computed\n"
        "memory of this rank: {} planned\n",
        run.plan, Name(run.device), whole, run.slice->tensor(), run.slice->pipeline(),
        base::BytesText(result.planned_memory_bytes().total()));
  }
  return fmt::format(
      "\nplan: {} on {}{}; {} ran alone, a slice: tensor {}, pipeline {}\n"
      "step: {} (the slice's, median step{}; its losses are meaningless)\n"
      "memory of this rank: {} planned, {} of them used, {} beside them\n",
      run.plan, Name(run.device), emulated, whole, run.slice->tensor(), run.slice->pipeline(),
      base::SecondsText(base::Median(steady)), result.step_time_s_size() > 1 ? ", without the first" : "",
      base::BytesText(result.planned_memory_bytes().total()), base::BytesText(result.peak_memory_bytes()),
      base::BytesText(result.device_overhead_bytes()));
}

// Drops the sign that a NaN may have.
std::string NumberText(double value, int digits) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, digits);
}

std::string WholeReport(const v1::TrainResult& result, const RunDescription& run) {
  const std::optional<double> tokens_per_s = TokensPerSecond(result, run);
  if (tokens_per_s && !run.emulated.empty()) {
    return fmt::format(
        "\nplan: {} on {}, {} rank{}, emulating {}\n"
        "tokens per second: {} (emulated: every op took its modelled time)\n"
        "memory of the worst rank: {} planned\n",
        run.plan, Name(run.device), run.ranks, run.ranks == 1 ? "" : "s", run.emulated,
        base::CountText(std::llround(*tokens_per_s)), base::BytesText(result.planned_memory_bytes().total()));
  }
  if (!tokens_per_s) {
    return fmt::format(
        "plan: {} on {}, {} rank{}; nothing was computed\n"
        "memory of the worst rank: {} planned\n",
        run.plan, Name(run.device), run.ranks, run.ranks == 1 ? "" : "s",
        base::BytesText(result.planned_memory_bytes().total()));
  }
  return fmt::format(
      "\nplan: {} on {}, {} rank{}\n"
      "tokens per second: {} (measured, median step{})\n"
      "memory of the worst rank: {} planned, {} of them used, {} beside them\n{}",
      run.plan, Name(run.device), run.ranks, run.ranks == 1 ? "" : "s",
      base::CountText(std::llround(*tokens_per_s)),
      result.step_time_s_size() > 1 ? ", without the first" : "",
      base::BytesText(result.planned_memory_bytes().total()), base::BytesText(result.peak_memory_bytes()),
      base::BytesText(result.device_overhead_bytes()),
      result.checkpoint_path().empty() ? "" : fmt::format("checkpoint: {}\n", result.checkpoint_path()));
}

}  // namespace

std::optional<double> TokensPerSecond(const v1::TrainResult& result, const RunDescription& run) {
  if (run.slice || result.step_time_s().empty()) return std::nullopt;
  return autocfg::TokensPerSecond(run.workload, base::Median(SteadySteps(result)));
}

std::string Divergence(const v1::TrainResult& result) {
  for (int i = 0; i < std::max(result.losses_size(), result.grad_norms_size()); ++i) {
    if (i < result.losses_size() && !std::isfinite(result.losses(i)))
      return fmt::format("step {}: the loss is {}", result.first_step() + i + 1,
                         NumberText(result.losses(i), 6));
    if (i < result.grad_norms_size() && !std::isfinite(result.grad_norms(i)))
      return fmt::format("step {}: the gradient norm is {}", result.first_step() + i + 1,
                         NumberText(result.grad_norms(i), 6));
  }
  return "";
}

nlohmann::ordered_json TrainJson(const v1::TrainResult& result, const RunDescription& run) {
  const std::optional<double> tokens_per_s = TokensPerSecond(result, run);
  return {{"first_step", result.first_step()},
          {"losses", ListOf(result.losses())},
          {"grad_norms", ListOf(result.grad_norms())},
          {"step_time_s", ListOf(result.step_time_s())},
          {"tokens_per_s", tokens_per_s ? Json(*tokens_per_s) : Json(nullptr)},
          {"planned_memory_bytes", result.planned_memory_bytes().total()},
          {"peak_memory_bytes", result.peak_memory_bytes()},
          {"device_overhead_bytes", result.device_overhead_bytes()},
          {"checkpoint", result.checkpoint_path().empty() ? Json(nullptr) : Json(result.checkpoint_path())},
          {"plan", run.plan},
          {"device", std::string(Name(run.device))},
          {"cluster", run.emulated.empty() ? Json(nullptr) : Json(run.emulated)},
          {"slice", SliceJson(run)},
          {"model", ModelJson(run.model)},
          {"parameters", ParameterCount(run.model)},
          {"workload", WorkloadJson(run.workload)},
          {"versions", VersionsJson(run.device)}};
}

std::string TrainReport(const v1::TrainResult& result, const RunDescription& run) {
  return Wrapped((run.slice ? SliceReport(result, run) : WholeReport(result, run)) +
                 fmt::format("params: {}\n", ParametersText(run.model)));
}

TrainDisplay::TrainDisplay(bool json, bool computes, std::int64_t steps, const Workload& workload,
                           std::optional<PlannedRun> run, StepLog* log, std::FILE* out)
    : json_(json),
      computes_(computes),
      terminal_(CanDraw(STDERR_FILENO)),
      steps_(steps),
      workload_(workload),
      run_(std::move(run)),
      log_(log),
      out_(out) {}

void TrainDisplay::Step(int rank, const v1::Progress& progress) {
  if (rank != 0) return;
  const StepFigures figures = FiguresOf(progress, computes_, workload_, run_);
  if (log_ != nullptr) log_->Add(figures);
  if (!computes_) return;
  if (json_) {
    if (!terminal_) return;
    begun_ = true;
    fmt::print(stderr, "\rstep {} of {}, loss {}   ", progress.step(), steps_,
               NumberText(progress.loss(), 4));
    std::fflush(stderr);
    return;
  }
  constexpr const char* kRow = "{:>8}  {:>11}  {:>11}  {:>10}  {:>10}  {:>6}  {:>11}\n";
  if (!begun_)
    fmt::print(out_, fmt::runtime(kRow), "step", "loss", "grad norm", "time", "memory", "MFU", "tokens/s");
  begun_ = true;
  fmt::print(out_, fmt::runtime(kRow), progress.step(), NumberText(progress.loss(), 6),
             NumberText(progress.grad_norm(), 6), base::SecondsText(progress.step_time_s()),
             figures.memory_bytes ? base::BytesText(*figures.memory_bytes) : "-",
             figures.mfu ? fmt::format("{:.1f}%", 100 * *figures.mfu) : "-",
             base::CountText(std::llround(figures.tokens_per_s)));
  std::fflush(out_);
}

void TrainDisplay::End() {
  if (json_ && begun_) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace autocfg::cli
