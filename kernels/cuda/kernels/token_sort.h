// Sorts tokens by their rows in a table, so that a row's gradient is summed in the tokens' order.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace autocfg::cuda {

// Returns the number of elements of `sorted` that SortTokens needs.
std::int64_t SortedTokens(std::int64_t rows);

// sorted[i] = (tokens[t] - start) << 32 | t, ascending, for the tokens in [start, start + vocab). All other
// entries, up to the end, have all bits set. Batcher's bitonic sort (Batcher 1968), in shared memory as far
// as possible. Issued on the stream.
void SortTokens(std::int64_t rows, std::int64_t vocab, std::int64_t start, const std::int32_t* tokens,
                std::uint64_t* sorted, cudaStream_t stream);

}  // namespace autocfg::cuda
