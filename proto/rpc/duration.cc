#include "proto/rpc/duration.h"

#include "absl/time/time.h"
#include "base/units.h"
#include "fmt/format.h"

namespace autocfg {

absl::StatusOr<double> ParseDuration(std::string_view name, std::string_view text, double least_s,
                                     double most_s) {
  const auto seconds = base::ParseQuantity(base::Quantity::kSeconds, text);
  if (seconds.ok() && *seconds >= least_s && *seconds <= most_s) return *seconds;
  return absl::InvalidArgumentError(fmt::format(
      "{}: '{}' is not a time from {} to {}; give seconds, or a number with the unit ms, s, m, h or d, such "
      "as 90, 90s or 10m",
      name, text, absl::FormatDuration(absl::Seconds(least_s)), absl::FormatDuration(absl::Seconds(most_s))));
}

}  // namespace autocfg
