// Parses time values of command-line options. Pure, thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace autocfg {

inline constexpr double kYearSeconds = 365 * 86400.0;

// Parses "90" (seconds) or numbers with units (base/units.h: ns, us, ms, s, m, min, h, d): "90s", "1.5h",
// "500ms", "1h30m". Returns seconds. Returns InvalidArgument if the text is malformed or the value is
// outside [`least_s`, `most_s`]. `name` is the option including its dashes.
absl::StatusOr<double> ParseDuration(std::string_view name, std::string_view text, double least_s,
                                     double most_s);

}  // namespace autocfg
