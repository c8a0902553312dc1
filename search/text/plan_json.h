// Plans as JSON (docs/formats.md, "Plan"), and the help and documentation of their options. All follow from
// the table of search/plan/plan_options.h. Pure functions, thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/parallel_plan.h"
#include "search/plan/plan_options.h"

namespace autocfg {

// Returns all options by their JSON names.
nlohmann::ordered_json PlanJson(const ParallelPlan& plan, PlanOptionTable options = PlanOptions());

// Parses an object, or a string in the text form. Errors as ParsePlanText's, and values of the wrong type.
absl::StatusOr<ParallelPlan> ParsePlanJson(const nlohmann::ordered_json& json,
                                           PlanOptionTable options = PlanOptions());

// Values of an option for people: "1, 2, ...", "0, 1", "gpipe, 1f1b, interleaved, zb-h1".
std::string ValuesText(const PlanOption& option);

// The default of an option for people: "1f1b; interleaved if vpp is above 1".
std::string DefaultText(const PlanOption& option);

// The options as indented lines for `--help`: name, values, default and summary.
std::string PlanOptionsHelp(PlanOptionTable options = PlanOptions());

// The options as the rows of the Markdown table in docs/formats.md.
std::string PlanOptionsMarkdown(PlanOptionTable options = PlanOptions());

}  // namespace autocfg
