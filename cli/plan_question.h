// What `predict` and `explain` are asked: a model, a described cluster, a workload and a plan, and the
// predictor that answers. Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "cli/results_json.h"
#include "search/cost/predict_plan.h"

namespace autocfg {

struct PlanQuestionArgs {
  std::string model, cluster, global_batch, seq_len, precision, plan;
};

// --model, --cluster, --global-batch, --plan, --seq-len, --precision.
void AddPlanQuestion(CLI::App* verb, PlanQuestionArgs& args);

// The first option of these that was given; empty without one.
std::string FirstGiven(const PlanQuestionArgs& args);

struct PlanQuestion {
  SearchQuestion about;
  ParallelPlan plan;
  Predictor predictor;
  std::vector<std::string> notes;  // on what was chosen where nothing was named
};

// Errors name the option.
absl::StatusOr<PlanQuestion> LoadPlanQuestion(const PlanQuestionArgs& args);

// How a command ends whose plan was predicted: kExitDone where it fits, else kExitNegative after the one line
// of error, whose figures and notes are in the answer.
int EndOf(const PlanPrediction& predicted);

// `notes` as lines of the answer where the plan does not fit, so that its error stays alone; else said at
// once, and nothing.
std::string NotesOf(const PlanPrediction& predicted, const std::vector<std::string>& notes);

// What a predictor says of a field, said of the option that it came from; of a cluster, with `cluster`, what
// that option was given.
absl::Status OfOption(const absl::Status& status, std::string_view cluster = "");

}  // namespace autocfg
