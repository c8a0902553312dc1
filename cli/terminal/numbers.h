// Parses numbers on the command line. The whole text must be a number in range. InvalidArgument says what is
// wrong and what to give. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace autocfg::cli {

inline constexpr std::int64_t kMaxSize = (std::int64_t{1} << 31) - 1;

// `name` is the option, including its dashes.
absl::StatusOr<std::int64_t> ParseWhole(std::string_view name, std::string_view text, std::int64_t least = 1,
                                        std::int64_t most = kMaxSize);
absl::StatusOr<std::uint64_t> ParseSeed(std::string_view name, std::string_view text);
// Rejects NaN and infinity; requires least <= value <= most.
absl::StatusOr<double> ParseReal(std::string_view name, std::string_view text, double least, double most);

}  // namespace autocfg::cli
