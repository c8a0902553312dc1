// One request of StudyService.Predict and its answer: what `autocfg predict --requests` answers to the same
// question. Thread-safe with a cache each.
#pragma once

#include "autocfg/v1/study_service.pb.h"
#include "search/cost/predict_plan.h"

namespace autocfg {

// The request's id with a prediction, or with what is wrong; a request of more than 1 MiB is wrong, and so
// has no id in its answer.
v1::PredictResponse AnswerPrediction(const v1::PredictRequest& request, PredictorCache& predictors);

}  // namespace autocfg
