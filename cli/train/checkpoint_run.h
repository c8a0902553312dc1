// The run whose checkpoints a directory holds, for a run that resumes it without naming its model or plan.
// The manifest of a checkpoint has what its run must have again (docs/formats.md, "Checkpoints"); the ranks
// check it, with its checksum, when they read the checkpoint. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/model.pb.h"
#include "autocfg/v1/trainer.pb.h"
#include "proto/answer/answer_file.h"

namespace autocfg::cli {

// Returns model, workload and plan of the newest checkpoint of DIR/step-N, or of DIR if that is a checkpoint
// itself. The model has no name. NotFound if there is none. InvalidArgument names the manifest and a field
// of it that cannot be read.
absl::StatusOr<BestPlan> RunOfCheckpoint(const std::string& directory);

// Returns whether a checkpoint whose files are all there, in their sizes, is in DIR/step-N or DIR itself.
bool HoldsCheckpoint(const std::string& directory);

// What a run that resumes is asked to be, as far as its checkpoint says it too.
struct ResumingRun {
  v1::ModelSpec model;
  v1::Workload workload;
  v1::OptimizerSpec optimizer;
  std::uint64_t seed = 0;
  std::int64_t steps = 0;
};

// InvalidArgument if the newest complete checkpoint is of another run, or if all complete ones have done all
// its steps. OK if none is complete: the ranks say what is wrong. They also check what this does not: the
// data and the checksums.
absl::Status CheckResumes(const std::string& directory, const ResumingRun& run);

// Parses a manifest's text. Errors are those of the field, without the file.
absl::StatusOr<BestPlan> ParseManifestRun(const std::string& text);

}  // namespace autocfg::cli
