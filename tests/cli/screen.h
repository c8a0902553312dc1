// What a terminal shows of the bytes that it was sent: enough of one for the live display.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg::cli {

// A screen of any height. Lines longer than the width wrap. Fails the test at a sequence that it does not
// know.
class Screen {
 public:
  explicit Screen(std::size_t columns) : columns_(columns) {}

  void Feed(std::string_view bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const char c = bytes[i];
      if (c == '\r') {
        column_ = 0;
      } else if (c == '\n') {
        ++row_;  // a terminal adds the '\r'
        column_ = 0;
      } else if (c == '\x1b') {
        i = Escape(bytes, i);
      } else {
        Put(c);
      }
    }
  }

  // Returns the rows without trailing blanks and empty rows at the end.
  std::vector<std::string> Rows() const {
    std::vector<std::string> rows = rows_;
    for (std::string& row : rows) row.erase(row.find_last_not_of(' ') + 1);
    while (!rows.empty() && rows.back().empty()) rows.pop_back();
    return rows;
  }

 private:
  void Put(char c) {
    if (column_ == columns_) {
      ++row_;
      column_ = 0;
    }
    rows_.resize(std::max(rows_.size(), row_ + 1));
    std::string& row = rows_[row_];
    row.resize(std::max(row.size(), column_ + 1), ' ');
    row[column_++] = c;
  }

  // Returns the place of the sequence's last byte.
  std::size_t Escape(std::string_view bytes, std::size_t at) {
    std::size_t end = at + 2;
    while (end < bytes.size() &&
           (std::isdigit(static_cast<unsigned char>(bytes[end])) != 0 || bytes[end] == ';'))
      ++end;
    const std::string number(bytes.substr(at + 2, end - at - 2));
    rows_.resize(std::max(rows_.size(), row_ + 1));
    switch (end < bytes.size() ? bytes[end] : '?') {
      case 'A': row_ -= std::min<std::size_t>(row_, number.empty() ? 1 : std::stoul(number)); break;
      case 'J': rows_.resize(row_ + 1); [[fallthrough]];
      case 'K': rows_[row_].resize(std::min(rows_[row_].size(), column_)); break;
      case 'm': break;
      default: ADD_FAILURE() << "unknown sequence ESC[" << number << " at " << at;
    }
    return end;
  }

  const std::size_t columns_;
  std::vector<std::string> rows_;
  std::size_t row_ = 0, column_ = 0;
};

}  // namespace autocfg::cli
