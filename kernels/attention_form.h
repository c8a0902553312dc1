// How an attention op divides rows of qkv into heads and turns products of q and k into scores. Plain values;
// pure functions, thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace autocfg {

// The score of a query at position i and a key at position j <= i is s - slope (i - j), where s is scale q k,
// or c tanh(scale q k / c) with a soft cap c, and slope is AlibiSlope of the head, 0 without ALiBi. With a
// window, the query attends to the last `window` keys up to j = i.
struct AttentionForm {
  std::int64_t heads = 0;        // N, of this rank
  std::int64_t kv_heads = 0;     // G, of this rank
  double scale = 0;              // 0: 1 / sqrt(D)
  std::int64_t alibi_heads = 0;  // heads of the whole model, which decide the slopes; 0: no ALiBi
  std::int64_t first_head = 0;   // with ALiBi: the first of them that this rank has
  double softcap = 0;            // 0: none
  std::int64_t window = 0;       // keys; 0: all up to the query

  bool HasAlibi() const { return alibi_heads > 0; }
  // Returns the first key that the query at a position attends to.
  std::int64_t FirstKey(std::int64_t query) const {
    return window == 0 ? 0 : std::max<std::int64_t>(0, query - window + 1);
  }
  double ScaleOf(std::int64_t head_dim) const {
    return scale == 0 ? 1 / std::sqrt(static_cast<double>(head_dim)) : scale;
  }
};

// Returns the slope of head `head` of `heads` (Press et al. 2022, "Train Short, Test Long"): with p the
// largest power of two that is not above `heads`, 2^(-8 (head + 1) / p) for the first p heads. The others
// have every second slope of 2p heads, from the first on, as in the paper's code (github.com/ofirpress/
// attention_with_linear_biases). Requires 0 <= head < heads.
inline double AlibiSlope(std::int64_t heads, std::int64_t head) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const auto exponent = [](std::int64_t place, std::int64_t of) {
    return -8.0 * static_cast<double>(place + 1) / static_cast<double>(of);
  };
  return std::exp2(head < power ? exponent(head, power) : exponent(2 * (head - power), 2 * power));
}

// Returns the slope of a rank's head `head`, counted within the rank.
inline double SlopeOf(const AttentionForm& form, std::int64_t head) {
  return form.HasAlibi() ? AlibiSlope(form.alibi_heads, form.first_head + head) : 0;
}

}  // namespace autocfg
