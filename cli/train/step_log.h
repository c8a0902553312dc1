// The figures of one step of a training run, and the file of --log that has a row for each. Use from one
// thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/trainer.pb.h"
#include "search/plan/run.h"

namespace autocfg::cli {

struct StepFigures {
  std::int64_t step = 0;
  std::optional<double> loss, grad_norm;  // empty if the device computes none
  double step_time_s = 0;
  double tokens_per_s = 0;
  std::optional<double> model_flops_per_s_per_gpu;
  std::optional<double> mfu;                 // empty if the peak of the device is unknown
  std::optional<std::int64_t> memory_bytes;  // of the worst rank, after its first step
};

// `run`: what model FLOPs and MFU follow from, on a cluster with a node group, whose device may have no peak.
StepFigures FiguresOf(const v1::Progress& progress, bool computes, const Workload& workload,
                      const std::optional<PlannedRun>& run);

// Writes CSV with a header, or a JSON object a line (JSONL), by the name's ending. Each row is written at
// once, so that the file can be followed, and a killed run keeps its rows. Unknown figures are empty in CSV
// and null in JSONL, as are losses that are not finite.
class StepLog {
 public:
  // InvalidArgument unless the name ends in .csv or .jsonl.
  static absl::Status CheckName(const std::string& path);
  // Opens the file. The first row begins it anew, or with `appends` continues the rows of the run that is
  // resumed, without a last row that was cut off, as by a full disk. Until then it stays as it is: a run that
  // is refused has no rows.
  static absl::StatusOr<std::unique_ptr<StepLog>> Open(const std::string& path, bool appends);
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  void Add(const StepFigures& figures);
  // Closes the file. Returns the first error of writing. Call once.
  absl::Status Finish();

 private:
  StepLog(std::string path, std::FILE* file, bool appends, bool created)
      : path_(std::move(path)), file_(file), appends_(appends), created_(created) {}
  void Write(const std::string& line);
  void Begin();
  void WriteHeader();

  const std::string path_;
  std::FILE* file_;
  const bool appends_, created_;
  bool begun_ = false;
  int error_ = 0;  // errno of the first failed write
};

}  // namespace autocfg::cli
