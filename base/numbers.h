// The parser of numbers. Header-only, so that small programs need not link a library for it. Thread-safe.
//
//   const auto port = base::ParseNumber<int>(text, 0, 65535);
//   if (!port) return absl::InvalidArgumentError(...);
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace autocfg::base {

// Returns the number that the whole text is, in decimal; nullopt for any other text (blanks, a '+', a unit)
// and for a number outside [least, most]. A '-' needs `least` < 0. A real may have an exponent; NaN and, with
// the default range, infinity are rejected.
template <typename T>
std::optional<T> ParseNumber(std::string_view text, T least = std::numeric_limits<T>::lowest(),
                             T most = std::numeric_limits<T>::max()) {
  if (least >= T{0} && text.starts_with('-')) return std::nullopt;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return least <= value && value <= most ? std::optional<T>(value) : std::nullopt;
}

}  // namespace autocfg::base
