#include "search/fit/csv_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

absl::Status BadTable(std::string_view problem) { return base::InvalidArgument("measurements", problem); }

// Reads one row from `text` at `at`, and moves `at` and `line` behind it. Empty if a quote stays open.
std::optional<CsvRow> ReadRow(std::string_view text, std::size_t& at, std::int64_t& line) {
  CsvRow row{.line = line, .cells = {}};
  std::string cell;
  bool quoted = false, was_quoted = false;
  const auto end_cell = [&] {
    if (!was_quoted) absl::StripAsciiWhitespace(&cell);
    row.cells.push_back(std::exchange(cell, ""));
    was_quoted = false;
  };
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"') {
        cell += c;
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        cell += text[++at];
      } else {
        quoted = false;
      }
    } else if (c == '"' && base::Trimmed(cell).empty()) {
      cell.clear();
      quoted = was_quoted = true;
    } else if (c == ',') {
      end_cell();
    } else if (c == '\n') {
      ++at;
      end_cell();
      return row;
    } else if (!was_quoted || (c != '\r' && c != ' ')) {
      cell += c;
    }
  }
  if (quoted) return std::nullopt;
  end_cell();
  return row;
}

}  // namespace

absl::StatusOr<CsvTable> ParseCsv(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.find('\0') != std::string_view::npos) return BadTable("it holds a zero byte; give a table in CSV");
  CsvTable table;
  std::size_t at = 0;
  std::int64_t line = 1;
  while (at < text.size()) {
    const std::int64_t begin = line;
    std::optional<CsvRow> row = ReadRow(text, at, line);
    if (!row) return BadTable(fmt::format("line {}: a quote is not closed; close it", begin));
    if (row->cells.size() == 1 && row->cells.front().empty()) continue;
    if (table.columns.empty()) {
      table.columns = std::move(row->cells);
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const std::string& name = table.columns[i];
        if (name.empty()) return BadTable(fmt::format("column {} has no name; name it", i + 1));
        if (std::find(table.columns.begin(), table.columns.begin() + static_cast<std::ptrdiff_t>(i), name) !=
            table.columns.begin() + static_cast<std::ptrdiff_t>(i))
          return BadTable(
              fmt::format("column {} is there twice; leave one of them out", base::Printable(name)));
      }
      continue;
    }
    if (row->cells.size() != table.columns.size()) {
      return BadTable(fmt::format("line {} has {} cells, but there are {} columns; correct the line", begin,
                                  row->cells.size(), table.columns.size()));
    }
    table.rows.push_back(*std::move(row));
  }
  if (table.columns.empty()) return BadTable("it is empty; its first line must name its columns");
  return table;
}

}  // namespace autocfg
