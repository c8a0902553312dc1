// What the plan options of each training framework cannot express: the plans that no file of the framework
// stands for. One table serves the writers, which refuse by it, and searches for a framework,
// which leave such plans out (search/space). Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "search/plan/legality.h"

namespace autocfg {

// The chunks that their switches for overlap of tensor communication stand for: the frameworks choose them.
inline constexpr std::int64_t kChunksOfSwitch = 4;

// Returns the rules of a framework, all of the reason kNotExpressible; none for any other name. They judge
// canonical plans that break no legality rule; split=auto counts as unequal stages. What `explain` returns
// names the option and its value. Rules that read `recompute` read no option that follows split.
//
// A precision or a model that a framework lacks is no rule here: it would leave no plan at all.
std::span<const LegalityRule> FrameworkRules(std::string_view framework);

// Returns what the first broken rule explains; empty if the framework expresses the plan.
std::string WhyNotExpressible(std::span<const LegalityRule> rules, const PlanCase& plan);

}  // namespace autocfg
