// What would make a given plan faster: the one change that gains most, and the fastest plan of all. By
// predictions, within what the engine's framework can express. Not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/question/plan_question.h"

namespace autocfg::cli {

struct AdvisedPlan {
  std::string change;  // "mbs=2 in place of mbs=1"; empty of a plan that may differ in everything
  PlanPrediction predicted;
};

// Gains below this fraction are not worth a change: predictions do not tell such plans apart any better.
inline constexpr double kWorthAChange = 0.005;

// Returns the plan that differs in one option, with another dp for another tp or pp, and that fits and gains
// the most; nothing if none gains kWorthAChange. If the plan itself does not fit, the fastest one that does.
std::optional<AdvisedPlan> BestChange(PlanQuestion& question, const PlanPrediction& given);

// Returns the fastest plan on all ranks that `ranks` counts, if it gains kWorthAChange; nothing without one.
// Searches as `search --predict-only` does.
absl::StatusOr<std::optional<AdvisedPlan>> FastestPlan(PlanQuestion& question, const PlanPrediction& given);

}  // namespace autocfg::cli
