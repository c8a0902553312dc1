// What was measured of a plan beside what was predicted, part by part of a step. Pure functions, thread-safe.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "cli/terminal/drawing.h"
#include "proto/answer/answer_file.h"

namespace autocfg::cli {

// Each returns the evidence for a plan: a candidate that was measured.

// For the trial: NotFound if nothing of it was measured.
absl::StatusOr<v1::Candidate> EvidenceOf(const v1::Trial& trial);

// For the study's best plan, over its trials. If that was not measured as a whole, for the fastest plan of
// the trials, slices left out. NotFound if there is none.
absl::StatusOr<v1::Candidate> EvidenceOfBest(const v1::Study& study, std::span<const v1::Trial> trials);

// For the best plan of the file of a search. InvalidArgument names the field. FailedPrecondition if the plan
// was not measured.
absl::StatusOr<v1::Candidate> EvidenceOf(const AnswerFile& file);

// Shows both times of a step and its parts as bars, with the difference of measured to predicted. If the
// parts were not recorded, says so.
std::string EvidenceText(const v1::Candidate& evidence, const BarStyle& style);

// Returns a table of the parts of all trials that have them, two rows a trial. Parts that are zero in all of
// them have no column. Empty if no trial has any.
std::string PartsOfTrials(std::span<const v1::Trial> trials);

}  // namespace autocfg::cli
