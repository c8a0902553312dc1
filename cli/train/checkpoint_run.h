// The run whose checkpoints a directory holds, for a run that resumes it without naming its model or plan.
// The manifest of a checkpoint has what its run must have again (docs/formats.md, "Checkpoints"); the ranks
// check it, with its checksum, when they read the checkpoint. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/report/results_json.h"

namespace autocfg::cli {

// Returns model, workload and plan of the newest checkpoint of DIR/step-N, or of DIR if that is a checkpoint
// itself. The model has no name. NotFound if there is none. InvalidArgument names the manifest and a field
// of it that cannot be read.
absl::StatusOr<BestPlan> RunOfCheckpoint(const std::string& directory);

// Parses a manifest's text. Errors are those of the field, without the file.
absl::StatusOr<BestPlan> ParseManifestRun(const std::string& text);

}  // namespace autocfg::cli
