// Embeddings of tokens and of positions, learned and rotary (Su et al. 2021); see Ops. T: float, double;
// gradients are accumulated in T, row after row. Pure functions.
#pragma once

#include <cstdint>

#include "search/ops/rotary_frequencies.h"

namespace autocfg::cpu {

// out[rows, width] = row tokens[t] - start of table[vocab, width]. Tokens outside [start, start + vocab)
// belong to other ranks; their rows of out are 0.
template <typename T>
void EmbeddingForward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                      const std::int32_t* tokens, const T* table, T* out);

// Row tokens[t] - start of dtable[vocab, width] += dout[t], for the tokens in the table.
template <typename T>
void EmbeddingBackward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                       const std::int32_t* tokens, const T* dout, T* dtable);

struct TokenRows {
  std::int64_t rows, width;
};

// y[t] += table[(first + t) mod seq_len] for each row t of y.
template <typename T>
void PositionForward(const TokenRows& shape, std::int64_t seq_len, std::int64_t first, T* y, const T* table);

// dtable[seq_len, width] += sum over the batch of dy[batch, seq_len, width].
template <typename T>
void PositionBackward(std::int64_t batch, std::int64_t seq_len, std::int64_t width, const T* dy, T* dtable);

struct RopeShape {
  std::int64_t batch, seq_len, width;  // rows of `width` elements
  std::int64_t heads, head_dim;        // the first heads * head_dim columns are those of rotated heads
  std::int64_t rotary_dims;            // of a head: its first ones, which are rotated
};

// Rotates qkv[batch, seq_len, width] in place by the positions, or back. Angles, their sines and the factor's
// products with them are computed in double and rounded to T.
template <typename T>
void Rope(const RopeShape& shape, const RotaryFrequencies& frequencies, bool inverse, T* qkv);

}  // namespace autocfg::cpu
