// Embeddings of tokens, and rotary embeddings of positions (Su et al. 2021); see Ops. T is float or
// __nv_bfloat16. Issued on the stream. Learned position embeddings are BiasAdd (elementwise.h) and ColumnSum
// (sum.h) with the batch as rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/scratch.h"
#include "search/ops/rotary_frequencies.h"

namespace autocfg::cuda {

// out[rows, width] = row tokens[t] - start of table[vocab, width] if it is in the table, else 0. Memory
// traffic: 2 rows width sizeof(T) bytes.
template <typename T>
void EmbeddingForward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                      const std::int32_t* tokens, const T* table, T* out, cudaStream_t stream);

// dtable[tokens[t] - start] += dout[t] for the tokens in the table, in float and rounded to S, in an order
// that depends only on the tokens. Tokens are sorted by (row, position), and one block sums those of a row.
// For rows with more than 64 tokens, one block per strip of columns does. No atomics. Memory traffic: rows
// width sizeof(T) bytes, and 8 bytes per element of the rows that occur. The sort moves 16 bytes per token
// and pass. 4096 tokens take 1 pass, 8192 take 3, and each further doubling adds one more pass than the
// previous one (65536: 15). Scratch: 8 bytes per token, rounded up to a power of two. rows is below 2^31.
template <typename T, typename S>
void EmbeddingBackward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                       const std::int32_t* tokens, const T* dout, S* dtable, Scratch& scratch,
                       cudaStream_t stream);

struct RopeShape {
  std::int64_t batch, seq_len, width;  // rows of `width` elements
  std::int64_t heads, head_dim;        // the first heads * head_dim columns are those of rotated heads
  std::int64_t rotary_dims;            // of a head: its first ones, which are rotated
};

// Rotates qkv[batch, seq_len, width] in place by the positions, or back, in float. Angles are reduced to one
// turn in double precision; their sines are computed in float (error below 1e-6 for positions below 2^24).
// One block per token; its sines are computed once for all heads. Memory traffic: 2 batch seq_len heads
// rotary_dims sizeof(T) bytes. Scaled frequencies are an argument of the kernel, so kMostRopeScales pairs at
// most may have them.
inline constexpr int kMostRopeScales = 128;
template <typename T>
void Rope(const RopeShape& shape, const RotaryFrequencies& frequencies, bool inverse, T* qkv,
          cudaStream_t stream);

}  // namespace autocfg::cuda
