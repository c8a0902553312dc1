// Predicts plans on this machine by the op times that searches have kept of it. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/input/devices.h"
#include "search/predict/predict_plan.h"
#include "search/question/prediction_question.h"

namespace autocfg::cli {

// The options as given, for the command of an error; all but `cluster` may be empty. `study`, `input`: what
// the question is from, if `model` is empty: a study of the database, or the file of an answer.
struct ThisMachineOptions {
  std::string model, cluster, database, study, input;
};

// Returns the predictor of the question, whose cluster is this machine with `device`. Its intervals are those
// of a search that has measured no plan yet. Appends how many of the plan's op times were measured.
// FailedPrecondition: no search has timed the ops of this question; the message has the command that does.
absl::StatusOr<Predictor> PredictorOfThisMachine(const PredictionQuestion& question, const RunDevice& device,
                                                 const ThisMachineOptions& options,
                                                 std::vector<std::string>& notes);

}  // namespace autocfg::cli
