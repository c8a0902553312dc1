// A table in CSV (RFC 4180): a line of column names, then a line for each row. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace autocfg {

struct CsvRow {
  std::int64_t line = 0;           // where it begins, from 1
  std::vector<std::string> cells;  // as many as there are columns, without blanks at their ends
};

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;
};

// Reads a table. Blank lines are left out. InvalidArgument with the subject "measurements": no columns, an
// empty or repeated name of a column, a row with another number of cells, an open quote at the end, or bytes
// that are no UTF-8 text.
absl::StatusOr<CsvTable> ParseCsv(std::string_view text);

}  // namespace autocfg
