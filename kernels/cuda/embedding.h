// Token embeddings; see Ops. T is float or __nv_bfloat16. Issued on the stream. Position embeddings are
// BiasAdd and ColumnSum with the batch as rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/scratch.h"

namespace autocfg::cuda {

// out[rows, width] = row tokens[t] - start of table[vocab, width] where it is in the table, else 0. Moves 2
// rows width sizeof(T) bytes.
template <typename T>
void EmbeddingForward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                      const std::int32_t* tokens, const T* table, T* out, cudaStream_t stream);

// dtable[tokens[t] - start] += dout[t] for the tokens in the table, in float and in an order that the tokens
// alone decide: the tokens are sorted by (row, position), and one block (for rows that more than 64 tokens
// share, one a strip of columns) sums those of a row. No atomics. Moves rows width sizeof(T) bytes and 8
// bytes an element of the rows that occur. The sort moves 16 bytes a token and pass, of which 4096 tokens
// take 1, 8192 take 3 and each doubling after that one more than the last (65536: 15), in 8 bytes a token of
// scratch, rounded up to a power of two. rows is below 2^31.
template <typename T>
void EmbeddingBackward(std::int64_t rows, std::int64_t width, std::int64_t vocab, std::int64_t start,
                       const std::int32_t* tokens, const T* dout, float* dtable, Scratch& scratch,
                       cudaStream_t stream);

}  // namespace autocfg::cuda
