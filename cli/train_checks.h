// Whether a run that was loaded may begin: its options, its files and its memory. Errors name the option.
// Thread-safe.
#pragma once

#include "absl/status/status.h"
#include "cli/train_run.h"

namespace autocfg {

// What makes no sense together: InvalidArgument.
absl::Status CheckTogether(const TrainArgs& args, const TrainRun& run);

// What is read is there, and what is written in the end can be. Errors as cli/files.h says.
absl::Status CheckFiles(const TrainArgs& args);

// FailedPrecondition, with the bytes and the region, where a rank's arena is larger than its capacity; the
// dry device has none.
absl::Status CheckFits(const TrainRun& train);

}  // namespace autocfg
