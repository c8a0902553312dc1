// Times on the command lines of all programs. Pure, thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace autocfg {

inline constexpr double kYearSeconds = 365 * 86400.0;

// Seconds: "90", or numbers with their units (ns, us, ms, s, m, h): "90s", "1.5h", "500ms", "1h30m".
// InvalidArgument where it is none, or not from `least_s` to `most_s`. `name` is the option, with its dashes.
absl::StatusOr<double> ParseDuration(std::string_view name, std::string_view text, double least_s,
                                     double most_s);

}  // namespace autocfg
