// The question that a search has asked, with the plan that it found, read back from its study for a
// prediction.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cli/study/study_reader.h"
#include "proto/answer/answer_file.h"

namespace autocfg::cli {

inline constexpr std::string_view kTrialsPart = "/trials/";

// Reads a study ("3": its best plan) or a trial ("3/trials/7"). Errors name --study: InvalidArgument,
// NotFound, FailedPrecondition if the study has no plan yet.
absl::StatusOr<BestPlan> QuestionOfStudy(StudyReader& reader, const std::string& text);

// Returns the trial that `text` names, of the study's trials. NotFound.
absl::StatusOr<v1::Trial> TrialNamed(StudyReader& reader, const v1::Study& study, const std::string& text);

}  // namespace autocfg::cli
