#include "worker/utf8.h"

#include <cstdint>

namespace autocfg {
namespace {

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

// Returns the length in bytes of the character that starts here, 0 if it is not valid.
std::size_t CharacterAt(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < 0x80) return first == '\t' || first == '\n' || (first >= 0x20 && first != 0x7F) ? 1 : 0;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < length) return 0;
  std::uint32_t code = first & (0xFFu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!Continues(bytes[i])) return 0;
    code = code << 6 | (static_cast<unsigned char>(bytes[i]) & 0x3Fu);
  }
  const bool too_long = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return too_long || surrogate || code > 0x10FFFF ? 0 : length;
}

}  // namespace

std::string CleanUtf8(std::string_view bytes, std::size_t most) {
  if (bytes.size() > most) {
    bytes.remove_prefix(bytes.size() - most);
    while (!bytes.empty() && Continues(bytes[0]))
      bytes.remove_prefix(1);  // rest of a truncated character
  }
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = CharacterAt(bytes);
    if (length == 0) {
      text += '?';
    } else {
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

}  // namespace autocfg
