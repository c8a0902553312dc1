// Predictions as JSON, and the requests for them, one a line (docs/formats.md, "Prediction request and
// answer"). Pure functions but for the cache that they are given; thread-safe with a cache each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/cost/predict_plan.h"

namespace autocfg {

// The regions, `total` and `capacity`, of the worst rank.
nlohmann::ordered_json MemoryJson(const MemoryBytes& memory, std::int64_t capacity_bytes);

// feasible, reason (empty where the plan fits), times, rates, memory_bytes, breakdown_s. `mfu` is null where
// the device's peak is not known.
nlohmann::ordered_json PredictionJson(const Prediction& prediction, const Throughput& throughput);

// "local", said of a prediction: it describes no machine.
absl::Status LocalHasNoFigures();

// bf16; fp16 on devices that have a rate in it and none in bf16 (V100); fp32 where the devices are CPUs.
std::string_view DefaultPredictedPrecision(const ClusterSpec& cluster);
// Why that is fp16, as a note; empty where it is not.
std::string PrecisionNote(const ClusterSpec& cluster);

struct PredictionRequest {
  ModelSpec model;  // defaults filled in
  ClusterSpec cluster;
  Workload workload;
  ParallelPlan plan;
  std::vector<std::string> notes;  // on what was chosen where the request says nothing
};

// Fills in what a request may leave out, and notes what was chosen: the model's defaults, `seq_len` tokens a
// sequence (0: the model's max_seq_len), the precision (empty: DefaultPredictedPrecision), a cluster's
// typical figures. InvalidArgument: a precision that is not known; a cluster that is this machine.
absl::Status FillPredictionRequest(PredictionRequest& request, std::int64_t seq_len,
                                   std::string precision_name);

// The prediction that a request with everything filled in is answered with. Errors as Predictor::Create's and
// Predict's.
absl::StatusOr<PlanPrediction> AnswerPredictionRequest(const PredictionRequest& request,
                                                       PredictorCache& predictors);

// InvalidArgument or NotFound names the field: missing, unknown, of the wrong type or out of range.
absl::StatusOr<PredictionRequest> ParsePredictionRequest(const nlohmann::ordered_json& json);

// One line of requests answered with one line, without line breaks: {"id", ...the prediction}, with "notes"
// where there are any; or {"id", "error"} for what is wrong or illegal. The id is echoed as it came, a string
// or a number; null where the line has none or is not JSON. A carriage return at the line's end is no part of
// it.
struct AnsweredLine {
  std::string text;
  bool ok = false;
};
AnsweredLine AnswerPredictionLine(std::string_view line, PredictorCache& predictors);

// What answers a line that could not be taken in.
AnsweredLine PredictionLineError(std::string_view message);

}  // namespace autocfg
