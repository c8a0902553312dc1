// Values of options: parses numbers, and names the option that an error of a library is about. Pure,
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"

namespace autocfg::cli {

inline constexpr std::int64_t kMaxSize = (std::int64_t{1} << 31) - 1;

// Parse a number; the whole text must be one, and in range. InvalidArgument names the option, quotes the text
// and says what to give. `name` is the option, including its dashes.
absl::StatusOr<std::int64_t> ParseWhole(std::string_view name, std::string_view text, std::int64_t least = 1,
                                        std::int64_t most = kMaxSize);
absl::StatusOr<std::uint64_t> ParseSeed(std::string_view name, std::string_view text);
// Rejects NaN and infinity; requires least <= value <= most.
absl::StatusOr<double> ParseReal(std::string_view name, std::string_view text, double least, double most);
// Parses a share from 0 to below 1, written "5%" or "0.05".
absl::StatusOr<double> ParseShare(std::string_view name, std::string_view text);

// Parses a number with or without a unit (base/units.h); requires least <= value <= most. `unit` is the size
// of a bare number in the quantity's base unit, such as 3600 of an option in hours.
absl::StatusOr<double> ParseWithUnit(std::string_view name, base::Quantity quantity, std::string_view text,
                                     double least, double most, double unit = 1);
// As above, for values that must be whole.
absl::StatusOr<std::int64_t> ParseWholeWithUnit(std::string_view name, base::Quantity quantity,
                                                std::string_view text, std::int64_t least, std::int64_t most);
// Appends what a text with a unit was read as to `notes`: "--seq-len: 8k is 8,192 tokens"; nothing if the
// text says the same. Requires a text that parses.
void AddUnitNote(std::string_view name, base::Quantity quantity, std::string_view text,
                 std::vector<std::string>& notes);

// Returns the error with the option in place of its subject: "--model: heads is 0". With `cluster`, errors
// about the cluster also show what --cluster was given. Errors about anything else stay as they are. The one
// place that maps the subjects of the libraries (base/subject.h) to options.
absl::Status OfOption(const absl::Status& status, std::string_view cluster = "");

}  // namespace autocfg::cli
