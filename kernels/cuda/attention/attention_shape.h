// The sizes and scores of one attention op, and the position of its heads in qkv. Pure functions.
#pragma once

#include <compare>
#include <cstdint>

#include "kernels/attention_form.h"

namespace autocfg::cuda {

inline constexpr std::int64_t kMostHeadDim = 256;

struct AttentionShape {
  std::int64_t batch = 0, seq_len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  // What the scores are, as in AttentionForm (kernels/attention_form.h).
  double scale = 0;
  std::int64_t alibi_heads = 0, first_head = 0;
  double softcap = 0;
  std::int64_t window = 0;

  auto operator<=>(const AttentionShape&) const = default;  // NOLINT(modernize-use-nullptr): false positive

  constexpr bool HasAlibi() const { return alibi_heads > 0; }
  float Scale() const { return static_cast<float>(AttentionForm{.scale = scale}.ScaleOf(head_dim)); }

  // Width of a row of qkv: q heads, then k heads, then v heads.
  constexpr std::int64_t RowWidth() const { return (heads + 2 * kv_heads) * head_dim; }
  constexpr std::int64_t OutWidth() const { return heads * head_dim; }
  // First columns of k and of v in a row of qkv.
  constexpr std::int64_t FirstKey() const { return heads * head_dim; }
  constexpr std::int64_t FirstValue() const { return (heads + kv_heads) * head_dim; }
};

// Throws std::invalid_argument, with one line, for a shape that no implementation supports: a size below 1,
// heads not divisible by kv_heads, a negative soft cap or window, head_dim above kMostHeadDim, or 2^31 rows
// of scores or more.
void CheckAttention(const AttentionShape& shape);

// Returns the number of row sums of dout * out that the backward needs.
constexpr std::int64_t AttentionDeltaElements(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.seq_len;
}

}  // namespace autocfg::cuda
