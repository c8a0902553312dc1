// Names of studies and trials as a user writes and reads them. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace autocfg::cli {

// Parses "studies/3" or "3" as 3. InvalidArgument for anything else.
absl::StatusOr<std::int64_t> ParseStudyId(const std::string& text);

// Returns "3" of "studies/3" and "7" of "studies/3/trials/7"; the whole name if it has no such number.
std::string LastPart(const std::string& name);

}  // namespace autocfg::cli
