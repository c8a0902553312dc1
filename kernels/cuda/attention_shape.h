// The sizes of one attention and where its heads lie in qkv. Pure functions.
#pragma once

#include <compare>
#include <cstdint>

namespace autocfg::cuda {

inline constexpr std::int64_t kMostHeadDim = 256;

struct AttentionShape {
  std::int64_t batch = 0, seq_len = 0, heads = 0, kv_heads = 0, head_dim = 0;

  auto operator<=>(const AttentionShape&) const = default;  // NOLINT(modernize-use-nullptr): false positive

  // Of qkv: a row has q heads, k heads, v heads.
  constexpr std::int64_t RowWidth() const { return (heads + 2 * kv_heads) * head_dim; }
  constexpr std::int64_t OutWidth() const { return heads * head_dim; }
  // The first column of k, of v, in a row of qkv.
  constexpr std::int64_t FirstKey() const { return heads * head_dim; }
  constexpr std::int64_t FirstValue() const { return (heads + kv_heads) * head_dim; }
};

// Throws std::invalid_argument, in one line, for a shape that no implementation takes: a size below 1, heads
// that kv_heads does not divide, head_dim above kMostHeadDim, 2^31 rows of scores or more.
void CheckAttention(const AttentionShape& shape);

// Elements of the row sums of dout * out that the backward keeps while it runs.
constexpr std::int64_t AttentionDeltaElements(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.seq_len;
}

}  // namespace autocfg::cuda
