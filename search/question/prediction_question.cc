#include "search/question/prediction_question.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/question/defaults.h"

namespace autocfg {

absl::Status LocalHasNoFigures() {
  return base::InvalidArgument(
      "cluster",
      "local has no figures to predict from; give a description of a cluster (in the CLI also a preset, such "
      "as a100-80gb-sxm:1x8), or measure this one with a study (`autocfg search`)");
}

absl::StatusOr<PredictionQuestion> MakePredictionQuestion(QuestionParts parts) {
  PredictionQuestion question{
      {{std::move(parts.model), {.global_batch = parts.global_batch}, std::move(parts.cluster)},
       std::move(parts.plan)}};
  FillDefaults(question.model, parts.seq_len);
  if (question.cluster.local && !parts.measured) return LocalHasNoFigures();
  question.workload.seq_len = parts.seq_len != 0 ? parts.seq_len : question.model.max_seq_len;
  AUTOCFG_ASSIGN_OR_RETURN(question.workload.precision,
                           ResolveDefaults(parts.engine, parts.precision,
                                           parts.measured ? DeviceTimes::kMeasured : DeviceTimes::kPredicted,
                                           question.cluster, question.notes));
  AUTOCFG_RETURN_IF_ERROR(SetOptimizer(parts.optimizer, parts.momentum, question.workload));
  question.memory_margin = parts.memory_margin.value_or(DefaultMemoryMargin(question.cluster));
  if (const absl::Status status = CheckMemoryMargin(question.memory_margin); !status.ok())
    return base::InvalidArgument("request", std::string(status.message()));
  return question;
}

absl::StatusOr<PlanPrediction> Answer(const PredictionQuestion& question, PredictorCache& predictors) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto predictor, predictors.Find(question, question.memory_margin));
  return predictor->Predict(question.plan);
}

}  // namespace autocfg
