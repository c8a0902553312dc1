// Sanitizes rank output for use in messages. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace autocfg {

// Returns the last `most` bytes (at most) of `bytes` as valid UTF-8 (RFC 3629). Replaces invalid bytes and
// control characters, except tab and line feed, by '?'.
std::string CleanUtf8(std::string_view bytes, std::size_t most);

}  // namespace autocfg
