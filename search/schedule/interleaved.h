// Interleaved 1F1B (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters",
// section 2.2.2): a rank owns several stages ("chunks") and takes microbatches in groups of as many as there
// are ranks: the group's forwards of chunk 0, then those of chunk 1, and so on; backwards the same from the
// last chunk. Forwards run ahead of backwards as in 1F1B. Pure, thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "search/schedule/compute_order.h"

namespace autocfg {

// Forwards, over all chunks, that a pipeline rank runs before its first backward with a forward in front of
// it: one way down the rest of the pipeline and back (2 (ranks - 1 - rank)) and all chunks but the last of
// the first group. Requires 0 <= rank < ranks.
constexpr std::int64_t InterleavedWarmUp(std::int64_t rank, std::int64_t ranks, std::int64_t chunks,
                                         std::int64_t microbatches) {
  return std::min(chunks * microbatches, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks);
}

// The actions' stages are those of the model: chunk * ranks + rank. Requires 0 <= rank < ranks, chunks > 0,
// and microbatches that are a positive multiple of `ranks`.
ComputeLoops InterleavedOrder(std::int32_t rank, std::int32_t ranks, std::int32_t chunks,
                              std::int64_t microbatches);

}  // namespace autocfg
