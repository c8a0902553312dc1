// Ranges among the values of a search's axis ("1-4", "<=4"), expanded by the table of plan options. Pure,
// thread-safe. Errors are InvalidArgument with the subject "space".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search/plan/plan_options.h"

namespace autocfg {

// The value of recompute that stands for full:K with every K, and full.
inline constexpr std::string_view kEveryFull = "full:*";

// Returns true if the value stands for several, or looks as if it were meant to.
bool IsRange(const PlanOption& option, std::string_view value);

// Returns the values with each range in place of those that it holds: of `sizes` (ascending), else of the
// option's choices. Keeps kEveryFull. Fails for a malformed, descending or empty range, a bound beside other
// values, and an option whose values are names.
absl::StatusOr<std::vector<std::string>> ExpandRanges(const PlanOption& option,
                                                      const std::vector<std::string>& values,
                                                      const std::vector<std::int64_t>& sizes);

// Returns what the values were read as: "tp<=4 is tp=1,2,4".
std::string RangeText(const PlanOption& option, const std::vector<std::string>& given,
                      const std::vector<std::string>& values);

}  // namespace autocfg
