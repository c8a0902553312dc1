// The run that a search has found, with the evidence for it: from its file or from its study.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/study/study_reader.h"
#include "search/frameworks/exported_run.h"

namespace autocfg::cli {

// Reads a file that search --output wrote. Errors name --input.
absl::StatusOr<ExportedRun> RunOfInput(const std::string& path);

// Reads a study ("3": its best plan) or a trial ("3/trials/7"). Errors name --study: InvalidArgument,
// NotFound, FailedPrecondition if the study has no plan yet.
absl::StatusOr<ExportedRun> RunOfStudy(StudyReader& reader, const std::string& text);

}  // namespace autocfg::cli
