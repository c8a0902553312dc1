// Formats a prediction for people, on one screen. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/answer/answer.h"
#include "search/predict/predict_plan.h"

namespace autocfg::cli {

std::string PredictionReport(const PlanPrediction& predicted, const SearchQuestion& question);

// "model: gpt3-175b, 1,536 sequences of 2,048 tokens a step, bf16".
std::string WorkloadText(const Problem& problem);

// Returns "8.03 B": the parameters of a model, in millions (M), billions (B) or trillions (T).
std::string ParametersText(const ModelSpec& model);
// "cluster: a100-80gb-sxm:64x8, 512 ranks; the plan uses 256".
std::string ClusterText(const ClusterSpec& cluster, std::int64_t used);

// "1.61 s (1.29 s to 2.09 s, 90% interval)"; `more`: what follows the interval.
std::string StepTimeText(const Prediction& predicted, std::string_view more = ", 90% interval");

// "12.3%".
std::string PercentText(double part, double whole);
// "312 TFLOP/s".
std::string FlopsText(double flops_per_s);

}  // namespace autocfg::cli
