// What `predict` and `explain` are asked: a model, a described cluster, a workload and a plan, and the predictor that answers. Not thread-safe.
#pragma once

#include <string>
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

// What a predictor says of a field, said of the option that it came from.
absl::Status OfOption(const absl::Status& status);

}  // namespace autocfg
