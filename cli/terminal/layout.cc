#include "cli/terminal/layout.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/text.h"

namespace autocfg::cli {
namespace {

using Cells = std::vector<std::string>;

constexpr std::size_t kGap = 2;             // columns before each cell
constexpr std::size_t kNarrowestLast = 30;  // a last column of less room goes below its row
constexpr std::size_t kWidestTitle = 20;    // of a paragraph, with its colon
// Words of a cell that are longer than this, such as plans, are broken after their commas.
constexpr std::size_t kLongWord = 16;

// Returns the pieces of a text between which a line may end; each but the last ends in a space or a comma.
// Without `commas`, no word is broken.
std::vector<std::string> PiecesOf(std::string_view text, bool commas) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size() - 1) + 1;
    std::string_view word = text.substr(begin, end - begin);
    begin = end;
    while (commas && word.size() > kLongWord) {
      const std::size_t comma = word.find(',');
      if (comma == std::string_view::npos || comma + 1 >= word.size()) break;
      pieces.emplace_back(word.substr(0, comma + 1));
      word.remove_prefix(comma + 1);
    }
    pieces.emplace_back(word);
  }
  return pieces;
}

std::string WithoutBlanksAtEnd(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::size_t WidthOf(const std::string& piece) { return ColumnsOf(WithoutBlanksAtEnd(piece)); }

// Fills lines of at most `width` columns with pieces; a piece that is longer has its own line.
std::vector<std::string> Fill(const std::vector<std::string>& pieces, std::size_t width) {
  std::vector<std::string> lines = {""};
  for (const std::string& piece : pieces) {
    if (!lines.back().empty() && ColumnsOf(lines.back()) + WidthOf(piece) > width) lines.emplace_back();
    lines.back() += piece;
  }
  for (std::string& line : lines) line = WithoutBlanksAtEnd(std::move(line));
  return lines;
}

std::size_t TotalOf(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * widths.size());
}

// Makes the widest columns that are above their floor narrower until all fit, or are at it.
void Shrink(std::vector<std::size_t>& widths, const std::vector<std::size_t>& floors) {
  for (std::size_t total = TotalOf(widths); total > kLineColumns; --total) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] > floors[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

// What the columns of a table take: as they are, with headings on several lines, and at least.
struct Widths {
  std::vector<std::size_t> natural, wrapped_heading, least;
};

Widths WidthsOf(const std::vector<Cells>& rows) {
  Widths widths;
  for (auto* each : {&widths.natural, &widths.wrapped_heading, &widths.least})
    each->resize(rows.front().size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < rows[i].size(); ++j) {
      std::size_t longest = 0;
      for (const std::string& piece : PiecesOf(rows[i][j], /*commas=*/true))
        longest = std::max(longest, WidthOf(piece));
      const std::size_t whole = ColumnsOf(rows[i][j]);
      widths.natural[j] = std::max(widths.natural[j], whole);
      widths.wrapped_heading[j] = std::max(widths.wrapped_heading[j], i == 0 ? longest : whole);
      widths.least[j] = std::max(widths.least[j], longest);
    }
  }
  return widths;
}

// Returns one row of cells of these widths. Those of a heading end at its last line, others begin at the
// first.
std::string RowLines(const Cells& row, const std::vector<std::size_t>& widths, bool heading) {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (std::size_t j = 0; j < row.size(); ++j) {
    cells.push_back(ColumnsOf(row[j]) <= widths[j] ? std::vector<std::string>{row[j]}
                                                   : Fill(PiecesOf(row[j], /*commas=*/true), widths[j]));
    height = std::max(height, cells.back().size());
  }
  std::string text;
  for (std::size_t k = 0; k < height; ++k) {
    std::string line;
    for (std::size_t j = 0; j < cells.size(); ++j) {
      const std::size_t above = heading ? height - cells[j].size() : 0;
      const std::string cell = k >= above && k - above < cells[j].size() ? cells[j][k - above] : "";
      line +=
          std::string(kGap, ' ') + cell + std::string(widths[j] - std::min(widths[j], ColumnsOf(cell)), ' ');
    }
    text += WithoutBlanksAtEnd(std::move(line)) + "\n";
  }
  return text;
}

// Returns what stands below a row, under the cells that name it.
std::string BelowLines(const std::string& below, std::size_t indent) {
  std::string text;
  for (std::size_t begin = 0; begin < below.size();) {
    const std::size_t end = std::min(below.find('\n', begin), below.size());
    if (end > begin) {
      for (const std::string& line :
           Fill(PiecesOf(below.substr(begin, end - begin), /*commas=*/true), kLineColumns - indent))
        text += std::string(indent, ' ') + line + "\n";
    }
    begin = end + 1;
  }
  return text;
}

// Returns the table of the columns from `first` on, behind those of `keys`, as far as they fit; moves `first`
// behind them.
std::vector<Cells> TakeColumns(const std::vector<Cells>& rows, const Widths& widths, std::size_t keys,
                               std::size_t& first) {
  std::size_t total = 0, end = first;
  for (std::size_t j = 0; j < keys; ++j) total += kGap + widths.wrapped_heading[j];
  while (end < rows.front().size() &&
         (end == first || total + kGap + widths.wrapped_heading[end] <= kLineColumns))
    total += kGap + widths.wrapped_heading[end++];
  std::vector<Cells> taken;
  for (const Cells& row : rows) {
    Cells& cells = taken.emplace_back(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(keys));
    cells.insert(cells.end(), row.begin() + static_cast<std::ptrdiff_t>(first),
                 row.begin() + static_cast<std::ptrdiff_t>(end));
  }
  first = end;
  return taken;
}

std::string Block(const std::vector<Cells>& rows, const std::vector<std::string>& below,
                  const TableNotes& notes) {
  const Widths known = WidthsOf(rows);
  std::vector<std::size_t> widths = known.natural;
  if (notes.text) {
    std::vector<std::size_t> floors = known.natural;
    floors.back() = std::min(floors.back(), std::max(known.least.back(), kNarrowestLast));
    Shrink(widths, floors);
  }
  Shrink(widths, known.wrapped_heading);
  Shrink(widths, known.least);
  std::size_t indent = kGap;
  if (notes.keys > 0) indent += widths[0] + kGap;
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += RowLines(rows[i], widths, notes.heading && i == 0);
    if (i < below.size()) text += BelowLines(below[i], std::min(indent, kLineColumns / 2));
  }
  return text;
}

// Moves the last column below the rows if it does not fit beside the others.
void MoveLastBelow(std::vector<Cells>& rows, std::vector<std::string>& below, std::size_t keys) {
  if (rows.front().size() <= keys + 1) return;
  const Widths widths = WidthsOf(rows);
  std::vector<std::size_t> others = widths.wrapped_heading;
  const std::size_t last = others.back();
  others.pop_back();
  const std::size_t used = TotalOf(others) + kGap;
  const std::size_t room = used < kLineColumns ? kLineColumns - used : 0;
  if (last <= room || room >= kNarrowestLast) return;
  below.resize(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    below[i] = rows[i].back() + "\n" + below[i];
    rows[i].pop_back();
  }
}

// Returns where the next option of a shell's command begins, with the space before it, beyond `begin`; else
// the end.
std::size_t OptionAfter(std::string_view command, std::size_t begin) {
  bool quoted = false;
  for (std::size_t i = begin; i < command.size(); ++i) {
    if (command[i] == '\'') quoted = !quoted;
    if (command[i] == '\\' && !quoted) ++i;
    if (i > begin && !quoted && command.substr(i).starts_with(" --")) return i;
  }
  return command.size();
}

}  // namespace

std::size_t ColumnsOf(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string Hung(std::string_view text, std::size_t indent) {
  std::string hung;
  std::string line;
  const std::string margin(indent, ' ');
  bool has_word = false;  // beyond the margin
  for (const std::string& piece : PiecesOf(text, /*commas=*/false)) {
    const std::size_t width = WidthOf(piece);
    if (has_word && width > 0 && ColumnsOf(line) + width > kLineColumns) {
      hung += WithoutBlanksAtEnd(std::move(line)) + "\n";
      line = margin;
    }
    line += piece;
    has_word = line.find_first_not_of(' ') != std::string::npos && ColumnsOf(line) > indent;
  }
  return hung + WithoutBlanksAtEnd(std::move(line)) + "\n";
}

std::string Wrapped(std::string_view text) {
  std::string wrapped;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t gap = line.rfind("  ");
    const bool of_table = gap != std::string_view::npos && gap + 2 > first;
    const std::size_t title = line.find(": ", first);
    const std::size_t indent = of_table               ? ColumnsOf(line.substr(0, gap + 2))
                               : title < kWidestTitle ? title + 2
                                                      : first + 2;
    wrapped += indent > kLineColumns / 2 ? std::string(line) + "\n" : Hung(line, indent);
  }
  return wrapped;
}

std::string CommandLines(std::string_view title, std::string_view command) {
  constexpr std::string_view kContinued = " \\";
  std::string text, line(title);
  for (std::size_t begin = 0; begin < command.size();) {
    const std::size_t end = OptionAfter(command, begin);
    const std::string_view part = command.substr(begin, end - begin);
    if (begin > 0 && ColumnsOf(line) + ColumnsOf(part) + kContinued.size() > kLineColumns) {
      text += line + std::string(kContinued) + "\n";
      line = std::string(ColumnsOf(title) + 1, ' ');
    }
    line += part;
    begin = end;
  }
  return text + line + "\n";
}

std::string Table(const std::vector<std::vector<std::string>>& given, const TableNotes& notes) {
  if (given.empty()) return "";
  std::vector<Cells> rows = given;
  std::size_t columns = 0;
  for (const Cells& row : rows) columns = std::max(columns, row.size());
  for (Cells& row : rows) {
    row.resize(columns);
    for (std::string& cell : row) cell = base::OneLine(cell, kWidestCell);
  }
  std::vector<std::string> below = notes.below;
  if (notes.text) MoveLastBelow(rows, below, notes.keys);
  const Widths widths = WidthsOf(rows);
  if (TotalOf(widths.least) <= kLineColumns || rows.front().size() <= notes.keys + 1)
    return Block(rows, below, notes);
  std::string text;
  for (std::size_t first = notes.keys; first < rows.front().size();) {
    text += text.empty() ? "" : "\n";
    text += Block(TakeColumns(rows, widths, notes.keys, first), text.empty() ? below : Cells(), notes);
  }
  return text;
}

}  // namespace autocfg::cli
