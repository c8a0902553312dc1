// A plan as text ("tp=8,pp=8,dp=8,mbs=1,recompute=full") and as JSON (docs/formats.md, "Plan"). Pure
// functions, thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// Options not named take their defaults; schedule defaults to interleaved where vpp > 1. Blanks around an
// option, as in "tp=2, pp=2", mean nothing. InvalidArgument: an
// unknown option or value (with the nearest names), an option named twice, a size that is not a number in [0,
// 2^31). Legality is not checked.
absl::StatusOr<ParallelPlan> ParsePlanText(std::string_view text);

// tp, pp, dp, mbs always, then every option that is not at its default, in the order of ParallelPlan.
// ParsePlanText(PlanText(p)) == p.
std::string PlanText(const ParallelPlan& plan);

// The same for a message of one line: cut, and so marked, where it is long (a split of many stages).
std::string ShortPlanText(const ParallelPlan& plan);

// All fields by their JSON names.
nlohmann::ordered_json PlanJson(const ParallelPlan& plan);
// An object, or a string in the text form.
absl::StatusOr<ParallelPlan> ParsePlanJson(const nlohmann::ordered_json& json);

// Values of single options, as in the text form.
std::string_view Name(Schedule schedule);
std::string_view Name(Attention attention);
std::string RecomputeText(const ParallelPlan& plan);  // none, selective, full, full:K
std::string SplitText(const ParallelPlan& plan);      // even, auto, 9+8+8+7
absl::Status SetPlanOption(ParallelPlan& plan, std::string_view name, std::string_view value);

}  // namespace autocfg
