// The text form of plans: "tp=8,pp=8,dp=8,mbs=1,recompute=full" (docs/formats.md, "Plan"). It follows from
// the table of plan_options.h. Pure functions, thread-safe.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/plan_options.h"

namespace autocfg {

// Parses the text form. Options that are not named take their defaults. Blanks around an option are ignored,
// as in "tp=2, pp=2". Does not check legality. InvalidArgument: an unknown option or value (with the nearest
// names), an option named twice, a size that is not a number in [0, 2^31).
absl::StatusOr<ParallelPlan> ParsePlanText(std::string_view text, PlanOptionTable options = PlanOptions());

// Returns tp, pp, dp and mbs always, then every option that is not at its default, in the order of the table.
// ParsePlanText(PlanText(p)) == p.
std::string PlanText(const ParallelPlan& plan, PlanOptionTable options = PlanOptions());

// Returns the sizes of the axes in the order of the table: "tp=2 x pp=4 x dp=8", with " x " between them.
std::string MeshText(const MeshOptions& mesh, std::string_view between);

// Returns the text with runs of three or more equal stages of a split written short: "split=1+2x62+1" for 1,
// then 2 in each of 62 stages, then 1. ParsePlanText reads both.
std::string WithShortSplit(std::string_view plan_text);

// Returns PlanText for a message of one line, with a short split; a longer text is cut and ends in "...".
std::string ShortPlanText(const ParallelPlan& plan);

// Sets one option, by its text name, from the text form of its value. InvalidArgument as ParsePlanText.
absl::Status SetPlanOption(ParallelPlan& plan, std::string_view name, std::string_view value,
                           PlanOptionTable options = PlanOptions());

// Sets the defaults of options that are not among `named` (text names) and depend on others.
void SetPlanDefaults(const std::set<std::string_view>& named, PlanOptionTable options, ParallelPlan& plan);

// Returns "; did you mean ...?" for a name that no option has in `own`: the option of this name in the column
// `other`, else the nearest in `own`, else in `other`. If none is near: "; expected ..." and all of `own`.
std::string SuggestOption(std::string_view name, std::string_view PlanOption::*own,
                          std::string_view PlanOption::*other, PlanOptionTable options);

}  // namespace autocfg
