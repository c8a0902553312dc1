// The lines of a framework's file to change so that it says another plan. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search/frameworks/framework_file.h"

namespace autocfg {

struct ChangedLine {
  std::int64_t line = 0;                // of the file before, from 1 on
  std::string before = {};              // the line, without its end; empty: lines are added before it
  std::vector<std::string> after = {};  // what stands there then; empty: the line goes
};

struct ChangedFile {
  std::string text;                // the whole file afterwards
  std::vector<ChangedLine> lines;  // in order
  // What to do outside of the file: "set CUDA_DEVICE_MAX_CONNECTIONS=1", what is the training script's.
  std::vector<std::string> besides = {};
};

// Returns the file with the settings changed by which exports of `run.plan` and of `plan` differ; what else
// stands in it stays. The result is read back, so that it says
// `plan` for the same model, batch and ranks. FailedPrecondition if no change of
// single settings does, as of a value that the file computes, or if the framework cannot express one of the
// plans. `options`: those with which the file was read.
absl::StatusOr<ChangedFile> ChangePlan(const FrameworkRun& run, const ParallelPlan& plan,
                                       const ReadingOptions& options);

}  // namespace autocfg
