#include "cli/train/step_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
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

// Returns the last bytes of a file of `size` bytes, as many as a row has at most. A file that may only be
// written counts as ending with a whole row.
std::string LastBytesOf(const std::string& path, off_t size) {
  constexpr off_t kMostRowBytes = 4096;
  std::string end(static_cast<std::size_t>(std::min(size, kMostRowBytes)), '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(size - static_cast<off_t>(end.size()));
  file.read(end.data(), static_cast<std::streamsize>(end.size()));
  return file ? end : "\n";
}

absl::Status LogError(const std::string& path, int error) {
  return absl::InvalidArgumentError(fmt::format("--log: {}: cannot be written ({}); give another file", path,
                                                std::generic_category().message(error)));
}

}  // namespace

StepFigures FiguresOf(const v1::Progress& progress, bool computes, const Workload& workload,
                      const std::optional<PlannedRun>& run) {
  StepFigures figures;
  figures.step = progress.step();
  figures.step_time_s = progress.step_time_s();
  if (computes) {
    figures.loss = progress.loss();
    figures.grad_norm = progress.grad_norm();
  }
  figures.tokens_per_s = TokensPerSecond(workload, progress.step_time_s());
  if (run) {
    const Throughput throughput = ThroughputOf(*run, run->plan, progress.step_time_s());
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
  std::error_code ignored;
  const bool created = !std::filesystem::exists(path, ignored);
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return LogError(path, errno);
  return std::unique_ptr<StepLog>(new StepLog(path, file, appends, created));
}

void StepLog::Begin() {
  struct stat info {};
  if (fstat(fileno(file_), &info) != 0) {
    error_ = errno;
    return;
  }
  off_t kept = 0;
  bool ends_line = true;
  if (appends_ && info.st_size > 0) {
    const std::string end = LastBytesOf(path_, info.st_size);
    const std::size_t last_line = end.rfind('\n');
    ends_line = last_line != std::string::npos;
    kept = ends_line ? info.st_size - static_cast<off_t>(end.size() - last_line - 1) : info.st_size;
  }
  if (S_ISREG(info.st_mode) && kept != info.st_size && ftruncate(fileno(file_), kept) != 0) error_ = errno;
  if (!ends_line) Write("\n");
  if (kept == 0) WriteHeader();
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
  if (!std::exchange(begun_, true)) Begin();
  const StepJson row = RowOf(figures);
  if (!IsCsv(path_)) return Write(row.dump() + "\n");
  std::vector<std::string> cells;
  for (const auto& [name, value] : row.items()) cells.push_back(value.is_null() ? "" : value.dump());
  Write(fmt::format("{}\n", fmt::join(cells, ",")));
}

absl::Status StepLog::Finish() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0 && error_ == 0) error_ = errno;
  if (created_ && !begun_) std::remove(path_.c_str());
  return error_ == 0 ? absl::OkStatus() : LogError(path_, error_);
}

}  // namespace autocfg::cli
