// What a study knows of its best plan, as the evidence of an export. Pure functions, thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "search/export/exported_run.h"

namespace autocfg {

// `runner_up`: the next best plan; null: none. The name of the study is not set.
ExportEvidence EvidenceFor(const v1::Candidate& best, const v1::Candidate* runner_up);

// Returns the run of a study's best plan. FailedPrecondition if it has none yet; InvalidArgument as
// FromProto.
absl::StatusOr<ExportedRun> ExportedRunOf(const v1::Study& study);

}  // namespace autocfg
