// Shows where the time and memory of a plan go, as bars: for one plan, or for two plans side by side with the
// difference. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/drawing.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/answer/answer.h"
#include "search/predict/predict_plan.h"

namespace autocfg::cli {

// One rank of the pipeline. Ranks that differ only in their tensor or data coordinate are identical.
struct PipelineRank {
  std::string layers;  // "0-11", with virtual stages "0-2, 24-26"
  // microbatches with activations held at once, chunk by chunk: "8", "5+4"
  std::string in_flight;
  std::int64_t memory_bytes = 0;
  double busy_s = 0;  // of the step; the rest is waiting
};

struct Explanation {
  PlanPrediction predicted;
  std::vector<PipelineRank> ranks;
  std::optional<double> hidden_comm_s;  // nothing if the plan's program is too large to be traced
};

// Errors as of Predictor::Predict.
absl::StatusOr<Explanation> Explain(Predictor& predictor, const ParallelPlan& plan);

// "Compute takes 71% of the step, the bubble 12%; 34.7 GiB (43%) of a rank's memory are free."
std::string WhatBounds(const PlanPrediction& predicted);

// Returns the sentence that names the parts of a step that make most of the difference of the first plan's
// time to the second's: "Of the 13.7 s more, compute makes 10.9 s (80%)." Empty if both take the same time.
std::string WhatDiffers(const Prediction& first, const Prediction& second);

// Returns the answers to `first` and `second`, as PlanPredictionJson, and `difference_s`: what the first
// takes more, by part of a step, and `total`.
nlohmann::ordered_json ComparisonJson(const PlanPrediction& first, const PlanPrediction& second);

std::string ExplanationText(const Explanation& plan, const SearchQuestion& question, const BarStyle& style);
std::string ComparisonText(const Explanation& plan, const Explanation& against,
                           const SearchQuestion& question, const BarStyle& style);

}  // namespace autocfg::cli
