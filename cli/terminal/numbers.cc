#include "cli/terminal/numbers.h"

#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

#include "fmt/format.h"

namespace autocfg::cli {
namespace {

template <typename T>
bool ParseAll(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

absl::StatusOr<std::int64_t> ParseWhole(std::string_view name, std::string_view text, std::int64_t least,
                                        std::int64_t most) {
  std::int64_t value = 0;
  if (!ParseAll(text, value) || value < least || value > most) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is not a whole number from {} to {}", name, text, least, most));
  }
  return value;
}

absl::StatusOr<std::uint64_t> ParseSeed(std::string_view name, std::string_view text) {
  std::uint64_t value = 0;
  if (!ParseAll(text, value)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is not a whole number from 0 to 18446744073709551615", name, text));
  }
  return value;
}

absl::StatusOr<double> ParseReal(std::string_view name, std::string_view text, double least, double most) {
  double value = 0;
  if (!ParseAll(text, value) || !std::isfinite(value) || value < least || value > most) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '{}' is not a number from {} to {}", name, text, least, most));
  }
  return value;
}

}  // namespace autocfg::cli
