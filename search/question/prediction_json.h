// Predictions as JSON, and the requests for them, one a line (docs/formats.md, "Prediction request and
// answer"). Thread-safe with one cache per thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/question/prediction_question.h"

namespace autocfg {

// Returns the regions, `total` and `capacity` of the worst rank.
nlohmann::ordered_json MemoryJson(const Prediction& prediction);

// Returns the parts of a step, by name.
nlohmann::ordered_json BreakdownJson(const Breakdown& breakdown);

// Returns feasible, reason (empty if the plan fits), times, rates, memory_bytes, breakdown_s and
// exposed_comm_s. `mfu` is null if the device's peak is unknown.
nlohmann::ordered_json PredictionJson(const Prediction& prediction, const Throughput& throughput);

// Returns the plan, plan_text, all of the above, hidden_comm_s (null if it was not asked for) and notes.
nlohmann::ordered_json PlanPredictionJson(const PlanPrediction& predicted);

// Parses a request. InvalidArgument or NotFound names the field: missing, unknown, of the wrong type or out
// of range.
absl::StatusOr<PredictionQuestion> ParsePredictionRequest(const nlohmann::ordered_json& json);

// The answer to one line of requests, without line breaks: {"id", ...the prediction} with "notes" if there
// are any, or {"id", "error"} for a wrong or illegal request.
struct AnsweredLine {
  std::string text;
  bool ok = false;
};

// Answers one line. The id is echoed as written, a string or a number; null if the line has none or is not
// JSON. A carriage return at the end of the line is ignored.
AnsweredLine AnswerPredictionLine(std::string_view line, PredictorCache& predictors);

// Returns the answer to a line that could not be read.
AnsweredLine PredictionLineError(std::string_view message);

}  // namespace autocfg
