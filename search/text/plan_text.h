// A plan as text ("tp=8,pp=8,dp=8,mbs=1,recompute=full") and as JSON (docs/formats.md, "Plan"), and the help
// and documentation of its options. All derive from the table of search/plan/plan_options.h. Pure functions,
// thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/parallel_plan.h"
#include "search/plan/plan_options.h"

namespace autocfg {

// Parses the text form. Options that are not named take their defaults. Blanks around an option are ignored, as
// in "tp=2, pp=2". Does not check legality. InvalidArgument: an unknown option or value (with the nearest
// names), an option named twice, a size that is not a number in [0, 2^31).
absl::StatusOr<ParallelPlan> ParsePlanText(std::string_view text, PlanOptionTable options = PlanOptions());

// Returns tp, pp, dp and mbs always, then every option that is not at its default, in the order of the table.
// ParsePlanText(PlanText(p)) == p.
std::string PlanText(const ParallelPlan& plan, PlanOptionTable options = PlanOptions());

// Returns PlanText for a message of one line: a long text (a split of many stages) is cut and ends in "...".
std::string ShortPlanText(const ParallelPlan& plan);

// Returns all options by their JSON names.
nlohmann::ordered_json PlanJson(const ParallelPlan& plan, PlanOptionTable options = PlanOptions());

// Parses an object, or a string in the text form. Errors as ParsePlanText's, and values of the wrong type.
absl::StatusOr<ParallelPlan> ParsePlanJson(const nlohmann::ordered_json& json,
                                           PlanOptionTable options = PlanOptions());

// Sets one option, by its text name, from the text form of its value. InvalidArgument as ParsePlanText.
absl::Status SetPlanOption(ParallelPlan& plan, std::string_view name, std::string_view value,
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
