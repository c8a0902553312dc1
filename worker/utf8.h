// What ranks write, as text that a message may carry. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace autocfg {

// The end of `bytes`, `most` bytes at most, as UTF-8 (RFC 3629): what is none, and control characters but tab
// and line feed, become '?'.
std::string CleanUtf8(std::string_view bytes, std::size_t most);

}  // namespace autocfg
