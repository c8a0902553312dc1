// The token embedding, its rows split over the tensor group (Shoeybi et al. 2019): each rank adds its own
// rows, and the sum over the group is complete.
#pragma once

#include <cstdint>

#include "trainer/layout/linear_parameters.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Computes out[T, H], the embedding rows of tokens[T], summed over the tensor group. `vocab_start` is the
// rank's first row.
void VocabParallelEmbeddingForward(const Execution& run, const Weight& wte, std::int64_t vocab_start,
                                   const Tensor& tokens, const Tensor& out);

// Accumulates the gradients of the rank's rows.
void VocabParallelEmbeddingBackward(const Execution& run, const Weight& wte, std::int64_t vocab_start,
                                    const Tensor& tokens, const Tensor& dout);

}  // namespace autocfg::trainer
