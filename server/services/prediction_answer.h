// Answers one request of StudyService.Predict, as `autocfg predict --requests` does. Thread-safe if each
// thread has its own cache.
#pragma once

#include "autocfg/v1/study_service.pb.h"
#include "search/cost/predict_plan.h"

namespace autocfg::server {

// Returns the request's ID with a prediction or an error. A request of more than 1 MiB is an error, returned
// without an ID.
v1::PredictResponse AnswerPrediction(const v1::PredictRequest& request, PredictorCache& predictors);

}  // namespace autocfg::server
