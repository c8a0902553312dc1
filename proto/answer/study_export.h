// A study's best plan as the run of an export, with what the study knows of it. Pure functions, thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "search/frameworks/exported_run.h"

namespace autocfg {

// `runner_up`: the next best plan; null: none. `emulated`: measurements are those of the paced device. The
// name of the study is not set.
ExportEvidence EvidenceFor(const v1::Candidate& best, const v1::Candidate* runner_up, bool emulated);

// Returns the run of a study's best plan. FailedPrecondition if it has none yet; InvalidArgument as
// FromProto.
absl::StatusOr<ExportedRun> ExportedRunOf(const v1::Study& study);

}  // namespace autocfg
