// Page sizes of lists. Pure, thread-safe.
#pragma once

#include <algorithm>

#include "absl/status/statusor.h"
#include "fmt/format.h"

namespace autocfg::server {

inline constexpr int kDefaultPage = 50;
inline constexpr int kLargestPage = 200;

// Returns the page size; InvalidArgument if `asked` is negative.
inline absl::StatusOr<int> PageSize(int asked) {
  if (asked < 0)
    return absl::InvalidArgumentError(fmt::format("page_size is {}; it must not be negative", asked));
  return asked == 0 ? kDefaultPage : std::min(asked, kLargestPage);
}

}  // namespace autocfg::server
