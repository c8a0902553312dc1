#include "proto/rpc/duration.h"

#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/time/time.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

// "ms" must precede "m": the first matching prefix wins.
constexpr std::array<std::pair<std::string_view, double>, 6> kUnits = {
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}}};

std::optional<double> SecondsOf(std::string_view text) {
  double seconds = 0;
  for (bool first = true; first || !text.empty(); first = false) {
    // Rejects signs and "inf".
    if (text.empty() || (std::isdigit(static_cast<unsigned char>(text.front())) == 0 && text.front() != '.'))
      return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (first && text.empty()) return value;
    double unit = 0;
    for (const auto& [name, size] : kUnits) {
      if (unit == 0 && text.starts_with(name)) {
        unit = size;
        text.remove_prefix(name.size());
      }
    }
    if (unit == 0) return std::nullopt;
    seconds += value * unit;
  }
  return seconds;
}

}  // namespace

absl::StatusOr<double> ParseDuration(std::string_view name, std::string_view text, double least_s,
                                     double most_s) {
  const auto seconds = SecondsOf(text);
  if (seconds && *seconds >= least_s && *seconds <= most_s) return *seconds;
  return absl::InvalidArgumentError(fmt::format(
      "{}: '{}' is not a time from {} to {}; give seconds, or a number with the unit ms, s, m or h, such as "
      "90, 90s or 10m",
      name, text, absl::FormatDuration(absl::Seconds(least_s)), absl::FormatDuration(absl::Seconds(most_s))));
}

}  // namespace autocfg
