// A complete question for a prediction: model, cluster, workload and plan. The command line, a line of
// requests and the Predict RPC all build it here. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/plan/run.h"
#include "search/predict/predict_plan.h"

namespace autocfg {

// Returns the error for the cluster "local", which describes no machine to predict from.
absl::Status LocalHasNoFigures();

// What a caller knows. Zero and empty values take defaults (defaults.h).
struct QuestionParts {
  ModelSpec model;  // sizes of zero take FillDefaults
  ClusterSpec cluster;
  std::int64_t global_batch = 0;
  std::int64_t seq_len = 0;  // 0: the model's max_seq_len
  std::string engine = {};   // empty: ours
  std::string precision = {};
  std::string optimizer = {};
  std::optional<double> momentum = {};
  ParallelPlan plan = {};
  std::optional<double> memory_margin = {};  // empty: DefaultMemoryMargin
  bool measured = false;                     // the caller has op times of the cluster, which may be local
};

struct PredictionQuestion : PlannedRun {
  double memory_margin = 0;             // as of CostModel
  std::vector<std::string> notes = {};  // on the defaults that were chosen
};

// Fills in the defaults. InvalidArgument: a cluster that is this machine without op times ("cluster"), an
// unknown precision ("request", option "precision") or optimizer (SetOptimizer), or a memory margin that
// CheckMemoryMargin refuses ("request"). The rest is checked by Predictor::Create.
absl::StatusOr<PredictionQuestion> MakePredictionQuestion(QuestionParts parts);

// Answers the question. Errors as Predictor::Create's and Predict's.
absl::StatusOr<PlanPrediction> Answer(const PredictionQuestion& question, PredictorCache& predictors);

}  // namespace autocfg
