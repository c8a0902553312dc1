// Formats a prediction for people, on one screen. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report/results_json.h"
#include "search/predict/predict_plan.h"

namespace autocfg::cli {

std::string PredictionReport(const PlanPrediction& predicted, const SearchQuestion& question);

// "model: gpt3-175b, 1,536 sequences of 2,048 tokens a step, bf16".
std::string WorkloadText(const Problem& problem);

// Returns "8.03 B": the parameters of a model, in millions (M), billions (B) or trillions (T).
std::string ParametersText(const ModelSpec& model);
// "cluster: a100-80gb-sxm:64x8, 512 ranks; the plan uses 256".
std::string ClusterText(const ClusterSpec& cluster, std::int64_t used);

// The parts with their display names, in display order.
struct TimePart {
  std::string_view name;
  double seconds;
};
std::vector<TimePart> TimeParts(const Breakdown& breakdown);
struct MemoryPart {
  std::string_view name;
  std::int64_t bytes;
};
std::vector<MemoryPart> MemoryParts(const MemoryBytes& memory);

// "12.3%".
std::string PercentText(double part, double whole);
// "312 TFLOP/s".
std::string FlopsText(double flops_per_s);

}  // namespace autocfg::cli
