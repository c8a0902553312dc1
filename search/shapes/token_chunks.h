// How the tokens of a product are cut into chunks whose sums over the tensor group overlap the product of the
// next chunk (docs/engine.md, "Chunks"). Shared by the engine and the lists of its ops. Pure.
#pragma once

#include <cstdint>

namespace autocfg {

// Rows [begin, end).
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t Count() const { return end - begin; }
};

// Returns chunk `index` of `rows` rows in `chunks` chunks. Their sizes differ by one row at most, so that
// some are empty if there are fewer rows than chunks.
constexpr RowRange ChunkOfRows(std::int64_t rows, std::int64_t chunks, std::int64_t index) {
  return {rows * index / chunks, rows * (index + 1) / chunks};
}

}  // namespace autocfg
