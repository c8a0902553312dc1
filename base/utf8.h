// Converts untrusted bytes to UTF-8 text for messages. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace autocfg::base {

// Returns `text` for one line of a message: control characters, invisible characters and bytes that are not
// UTF-8 become \xNN; text longer than about 60 bytes is cut and ends in "...".
std::string Printable(std::string_view text);

// Returns the last `most` bytes of `bytes` as UTF-8 (RFC 3629). Invalid bytes and control characters except
// tab and line feed become '?'.
std::string CleanUtf8(std::string_view bytes, std::size_t most);

}  // namespace autocfg::base
