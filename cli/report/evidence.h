// What was measured of a plan beside what was predicted, part by part of a step. Pure functions, thread-safe.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "cli/terminal/drawing.h"

namespace autocfg::cli {

struct Evidence {
  std::string plan_text;
  v1::Prediction predicted;
  v1::Measurement measured;
};

// Returns the evidence for the trial: NotFound if nothing of it was measured.
absl::StatusOr<Evidence> EvidenceOf(const v1::Trial& trial);

// Returns the evidence for the study's best plan, over its trials. If that was not measured as a whole, for
// the fastest plan of the trials, slices left out. NotFound if there is none.
absl::StatusOr<Evidence> EvidenceOfBest(const v1::Study& study, std::span<const v1::Trial> trials);

// Reads the evidence for the best plan from the file of a search (docs/formats.md, "best.json").
// InvalidArgument names the field. NotFound if the plan was not measured.
absl::StatusOr<Evidence> ParseEvidence(const std::string& best_json);

// Shows both times of a step and its parts as bars, with the difference of measured to predicted. If the
// parts were not recorded, says so.
std::string EvidenceText(const Evidence& evidence, const BarStyle& style);

// Returns a table of the parts of all trials that have them, two rows a trial. Parts that are zero in all of
// them have no column. Empty if no trial has any.
std::string PartsOfTrials(std::span<const v1::Trial> trials);

}  // namespace autocfg::cli
