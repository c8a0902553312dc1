// How ValidateProgram (program.h) says what is wrong.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace autocfg {

// FailedPrecondition.
inline absl::Status WrongProgram(std::int64_t rank, std::string_view problem) {
  return absl::FailedPreconditionError(fmt::format("program: rank {}: {}", rank, problem));
}

}  // namespace autocfg
