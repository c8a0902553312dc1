#include "search/frameworks/settings/text_positions.h"

namespace autocfg {

TextPositions::TextPositions(std::string_view text) : text_(text), lines_{0} {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool goes_on = (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
    if (!goes_on) characters_.push_back(at);
    if (text[at] == '\n') lines_.push_back(characters_.size());
  }
}

std::size_t TextPositions::Of(std::size_t character) const {
  return character < characters_.size() ? characters_[character] : text_.size();
}

std::size_t TextPositions::Of(std::size_t line, std::size_t column) const {
  return line < lines_.size() ? Of(lines_[line] + column) : text_.size();
}

void TextPositions::SetValueAt(std::size_t begin, std::size_t end, Setting& setting) const {
  if (begin > end || end > text_.size()) return;
  if (text_.substr(begin, end - begin) != setting.values.front()) return;
  setting.value_at = begin;
  setting.value_end = end;
}

}  // namespace autocfg
