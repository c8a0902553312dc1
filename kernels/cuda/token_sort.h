// Tokens in the order of their rows in a table, so that a row's gradient is summed in the tokens' order.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace autocfg::cuda {

// Elements of `sorted` that SortTokens needs.
std::int64_t SortedTokens(std::int64_t rows);

// sorted[i] = (tokens[t] - start) << 32 | t, ascending, of the tokens in [start, start + vocab); then all
// bits set, for the others and to the end. Batcher's bitonic sort (Batcher 1968), in shared memory as far as
// it goes. Issued on the stream.
void SortTokens(std::int64_t rows, std::int64_t vocab, std::int64_t start, const std::int32_t* tokens,
                std::uint64_t* sorted, cudaStream_t stream);

}  // namespace autocfg::cuda
