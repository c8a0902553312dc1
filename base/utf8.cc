#include "base/utf8.h"

#include <array>
#include <cstdint>

#include "fmt/format.h"

namespace autocfg::base {
namespace {

constexpr std::size_t kMaxShown = 60;

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

// Returns the length in bytes of the visible UTF-8 character that starts `text`; 0 if it starts with a control
// character, a direction mark, a joiner or invalid UTF-8. Requires a non-empty text.
std::size_t LetterBytes(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return first >= ' ' && first <= '~' ? 1 : 0;
  const std::size_t bytes = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  std::uint32_t letter = first & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    letter = letter << 6 | (byte(i) & 0x3F);
  }
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};  // by bytes
  const auto within = [&](std::uint32_t low, std::uint32_t high) { return low <= letter && letter <= high; };
  if (letter < kLeast[bytes] || letter > 0x10FFFF || within(0xD800, 0xDFFF)) return 0;
  const bool unseen = within(0x80, 0x9F) || within(0x200B, 0x200F) || within(0x2028, 0x202E) ||
                      within(0x2060, 0x206F) || letter == 0xFEFF || within(0xFFF0, 0xFFFB) ||
                      within(0xE0000, 0xE0FFF);
  return unseen ? 0 : bytes;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string shown;
  std::size_t i = 0;
  while (i < text.size() && i < kMaxShown) {
    const std::size_t letter = LetterBytes(text.substr(i));
    if (letter > 0) {
      shown += text.substr(i, letter);
      i += letter;
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i++]));
    }
  }
  if (i < text.size()) shown += "...";
  return shown;
}

std::string CleanUtf8(std::string_view bytes, std::size_t most) {
  if (bytes.size() > most) {
    bytes.remove_prefix(bytes.size() - most);
    while (!bytes.empty() && Continues(bytes[0])) bytes.remove_prefix(1);  // rest of a truncated character
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

}  // namespace autocfg::base
