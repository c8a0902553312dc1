// The question that `predict` and `explain` answer: a model, a cluster, a workload and a plan, and the
// predictor for it: by the figures of a described cluster, or by the op times that are kept of this machine.
// Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "cli/input/optimizer_choice.h"
#include "proto/answer/answer_file.h"
#include "search/predict/predict_plan.h"

namespace autocfg::cli {

struct PlanQuestionArgs {
  std::string model, cluster, global_batch, seq_len, precision, plan, memory_margin, engine;
  OptimizerChoice optimizer;
  std::string database;  // --db, or empty; its op times predict the cluster `local`
  // Where the question was stored, for the command of an error: a study of the database, or an answer's file.
  std::string study, input;
};

// Adds --model, --cluster, --global-batch, --plan, --seq-len, --precision, --optimizer, --momentum, --engine
// and --memory-margin.
void AddPlanQuestion(CLI::App* verb, PlanQuestionArgs& args);

// Returns the first of these options that was given; empty if none was.
std::string FirstGiven(const PlanQuestionArgs& args);

struct PlanQuestion {
  SearchQuestion about;
  ParallelPlan plan;
  Predictor predictor;
  std::vector<std::string> notes;  // about choices made for options not given
};

// Returns true if --cluster is this machine.
bool IsOfThisMachine(const PlanQuestionArgs& args);

// Has the plan of a search of this machine predicted there, by the op times that the database keeps, unless
// --cluster says otherwise.
void StayOnThisMachine(const BestPlan& known, PlanQuestionArgs& args);

// `known`: a question that was asked before; options take the place of its parts. Errors name the option.
absl::StatusOr<PlanQuestion> LoadPlanQuestion(const PlanQuestionArgs& args, const BestPlan* known = nullptr);

// Returns the exit code for a predicted plan: kExitDone if it fits, otherwise kExitNegative after printing
// one error line. The figures and notes are part of the answer.
int EndOf(const PlanPrediction& predicted);

// Returns `notes` as lines of the answer if the plan does not fit, so that its error stays a single line.
// Otherwise prints them at once and returns an empty string.
std::string NotesOf(const PlanPrediction& predicted, const std::vector<std::string>& notes);

}  // namespace autocfg::cli
