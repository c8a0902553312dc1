#include "cli/train/step_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "search/predict/predict_plan.h"

namespace autocfg::cli {
namespace {

using StepJson = nlohmann::ordered_json;

bool IsCsv(const std::string& path) { return path.ends_with(".csv"); }

StepJson FiniteOrNull(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? StepJson(*value) : StepJson(nullptr);
}

// The columns of CSV and the keys of JSONL, in their order.
StepJson RowOf(const StepFigures& figures) {
  return {{"step", figures.step},
          {"loss", FiniteOrNull(figures.loss)},
          {"grad_norm", FiniteOrNull(figures.grad_norm)},
          {"step_time_s", figures.step_time_s},
          {"tokens_per_s", figures.tokens_per_s},
          {"model_flops_per_s_per_gpu", FiniteOrNull(figures.model_flops_per_s_per_gpu)},
          {"mfu", FiniteOrNull(figures.mfu)},
          {"memory_bytes", figures.memory_bytes ? StepJson(*figures.memory_bytes) : StepJson(nullptr)}};
}

absl::Status LogError(const std::string& path, int error) {
  return absl::InvalidArgumentError(fmt::format("--log: {}: cannot be written ({}); give another file", path,
                                                std::generic_category().message(error)));
}

}  // namespace

StepFigures FiguresOf(const v1::Progress& progress, bool computes, const Workload& workload,
                      const std::optional<RunRates>& rates) {
  StepFigures figures;
  figures.step = progress.step();
  figures.step_time_s = progress.step_time_s();
  if (computes) {
    figures.loss = progress.loss();
    figures.grad_norm = progress.grad_norm();
  }
  figures.tokens_per_s = TokensPerSecond(workload, progress.step_time_s());
  if (rates) {
    const Throughput throughput =
        ThroughputOf(rates->model, workload, rates->cluster, rates->plan, progress.step_time_s());
    figures.model_flops_per_s_per_gpu = throughput.model_flops_per_s_per_gpu;
    figures.mfu = throughput.mfu;
  }
  if (progress.peak_memory_bytes() > 0) figures.memory_bytes = progress.peak_memory_bytes();
  return figures;
}

absl::Status StepLog::CheckName(const std::string& path) {
  if (IsCsv(path) || path.ends_with(".jsonl")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--log: '{}' does not end in .csv or .jsonl, which say the format; give such a name",
                  base::Printable(path)));
}

absl::StatusOr<std::unique_ptr<StepLog>> StepLog::Open(const std::string& path, bool appends) {
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return LogError(path, errno);
  std::unique_ptr<StepLog> log(new StepLog(path, file));
  log->begins_anew_ = !appends;
  if (appends) {
    log->CutOff(/*anew=*/false);
    if (std::fseek(file, 0, SEEK_END) == 0 && std::ftell(file) == 0) log->WriteHeader();
  }
  if (log->error_ != 0) return LogError(path, log->error_);
  return log;
}

void StepLog::CutOff(bool anew) {
  struct stat info {};
  if (fstat(fileno(file_), &info) != 0 || !S_ISREG(info.st_mode)) return;
  off_t size = anew ? 0 : info.st_size;
  if (size > 0) {
    std::ifstream lines(path_, std::ios::binary);
    for (char last = 0; size > 0; --size) {
      if (!lines.seekg(size - 1).get(last)) {
        error_ = EIO;
        return;
      }
      if (last == '\n') break;
    }
  }
  if (size != info.st_size && ftruncate(fileno(file_), size) != 0) error_ = errno;
}

void StepLog::WriteHeader() {
  if (!IsCsv(path_)) return;
  std::vector<std::string> names;
  const StepJson row = RowOf({});
  for (const auto& [name, value] : row.items()) names.push_back(name);
  Write(fmt::format("{}\n", fmt::join(names, ",")));
}

StepLog::~StepLog() {
  if (file_ != nullptr) std::fclose(file_);
}

void StepLog::Write(const std::string& line) {
  if (error_ != 0) return;
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0)
    error_ = errno != 0 ? errno : EIO;
}

void StepLog::Add(const StepFigures& figures) {
  if (std::exchange(begins_anew_, false)) {
    CutOff(/*anew=*/true);
    WriteHeader();
  }
  const StepJson row = RowOf(figures);
  if (!IsCsv(path_)) return Write(row.dump() + "\n");
  std::vector<std::string> cells;
  for (const auto& [name, value] : row.items()) cells.push_back(value.is_null() ? "" : value.dump());
  Write(fmt::format("{}\n", fmt::join(cells, ",")));
}

absl::Status StepLog::Finish() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0 && error_ == 0) error_ = errno;
  return error_ == 0 ? absl::OkStatus() : LogError(path_, error_);
}

}  // namespace autocfg::cli
