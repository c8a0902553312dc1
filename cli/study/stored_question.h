// The question that a search has asked, with the plan that it found, read back for a prediction: from its
// file or from its study.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/report/results_json.h"
#include "cli/study/study_reader.h"

namespace autocfg::cli {

inline constexpr std::string_view kTrialsPart = "/trials/";

// Reads a file that search --output wrote. Errors name --input.
absl::StatusOr<BestPlan> QuestionOfInput(const std::string& path);

// Reads a study ("3": its best plan) or a trial ("3/trials/7"). Errors name --study: InvalidArgument,
// NotFound, FailedPrecondition if the study has no plan yet.
absl::StatusOr<BestPlan> QuestionOfStudy(StudyReader& reader, const std::string& text);

// Returns the trial that `text` names, of the study's trials. NotFound.
absl::StatusOr<v1::Trial> TrialNamed(StudyReader& reader, const v1::Study& study, const std::string& text);

}  // namespace autocfg::cli
