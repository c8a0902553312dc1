// Divides the rows of a token matrix by their positions. Rows of several sequences follow each other, and a
// rank may hold a part of them that begins and ends within a sequence. Devices add position embeddings run by
// run. Pure, thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace autocfg {

// Rows [row, row + sequences * length) of the matrix: in each of `sequences` sequences, the `length`
// positions from `position` on.
struct PositionRun {
  std::int64_t row = 0;
  std::int64_t position = 0;
  std::int64_t length = 0;
  std::int64_t sequences = 1;
};

// Calls visit(PositionRun) for `rows` rows, of which the first is row `first` of sequences of `seq_len` rows:
// at most three runs, in ascending order. Whole sequences form one run.
template <typename Visit>
void ForEachPositionRun(std::int64_t rows, std::int64_t first, std::int64_t seq_len, const Visit& visit) {
  std::int64_t row = 0;
  if (const std::int64_t position = first % seq_len; position != 0 && rows > 0) {
    const std::int64_t length = std::min(rows, seq_len - position);
    visit(PositionRun{row, position, length, 1});
    row = length;
  }
  if (const std::int64_t whole = (rows - row) / seq_len; whole > 0) {
    visit(PositionRun{row, 0, seq_len, whole});
    row += whole * seq_len;
  }
  if (row < rows) visit(PositionRun{row, 0, rows - row, 1});
}

}  // namespace autocfg
