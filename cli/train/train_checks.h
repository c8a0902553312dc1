// Checks if a loaded run may start: its options, its files and its memory. Errors name the option.
// Thread-safe.
#pragma once

#include "absl/status/status.h"
#include "cli/train/train_run.h"

namespace autocfg::cli {

// InvalidArgument if options contradict each other.
absl::Status CheckTogether(const TrainArgs& args, const TrainRun& run);

// Checks that input files are readable and output files can be written at the end. Errors as in cli/input/files.h.
absl::Status CheckFiles(const TrainArgs& args);

// FailedPrecondition, with the bytes and the region, if a rank's arena exceeds its capacity. The dry device
// has no limit.
absl::Status CheckFits(const TrainRun& train);

}  // namespace autocfg::cli
