// Finds the bytes of the characters and lines that a parser counts in a text of UTF-8. Thread-safe.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "search/frameworks/settings/settings.h"

namespace autocfg {

// May stand before a text of UTF-8. Parsers do not count it.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

class TextPositions {
 public:
  // Refers to `text`.
  explicit TextPositions(std::string_view text);

  // Return the byte at which a character begins, given its index, or its line and its index in that. Lines
  // end with \n. All numbers count from 0. The size of the text if it has no such character.
  std::size_t Of(std::size_t character) const;
  std::size_t Of(std::size_t line, std::size_t column) const;

  // Sets value_at and value_end of the setting to these bytes if they are its only value. The text may have
  // the value in another form: with escapes, as another number, or behind a tag.
  void SetValueAt(std::size_t begin, std::size_t end, Setting& setting) const;

 private:
  std::string_view text_;
  std::vector<std::size_t> characters_;  // bytes at which they begin
  std::vector<std::size_t> lines_;       // indices of their first characters
};

}  // namespace autocfg
