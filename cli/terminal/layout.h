// Lays out what people read in lines of at most kLineColumns columns: paragraphs, entries with a label, and
// tables. A word that is longer, such as a path or the text of a plan, stays whole on a line of its own. Text
// is UTF-8, one column a character. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg::cli {

inline constexpr std::size_t kLineColumns = 80;

// Returns the columns of a text without control characters.
std::size_t ColumnsOf(std::string_view text);

// Returns `text` with the end of line. Lines that are too long are continued below, `indent` columns in.
std::string Hung(std::string_view text, std::size_t indent);

// Continues lines of words that are too long below, under the first word after a title such as "plans:".
// Lines of tables, which have two spaces between words, are continued in their last column.
std::string Wrapped(std::string_view text);

// Returns a command behind a title, as lines that a shell takes as one command. Breaks before options.
std::string CommandLines(std::string_view title, std::string_view command);

// Maximum bytes of a table cell; longer text is cut.
inline constexpr std::size_t kWidestCell = 400;

// What a table has beside its cells.
struct TableNotes {
  // What stands below each row, such as a remark; the first is of the heading. Missing ones are empty.
  std::vector<std::string> below = {};
  // The first columns, which name a row: repeated if the table is continued below with its other columns.
  std::size_t keys = 1;
  // If the first row is a heading: the ends of its cells stand on one line.
  bool heading = true;
  // If the last column is a text, such as a plan: it goes below each row where it would be too narrow.
  bool text = false;
};

// Formats left-aligned columns, two spaces apart. Cells pass base::OneLine. A table that is too wide has its
// headings and then its widest cells on several lines, plans broken after a comma.
std::string Table(const std::vector<std::vector<std::string>>& rows, const TableNotes& notes = {});

}  // namespace autocfg::cli
