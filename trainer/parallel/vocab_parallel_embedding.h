// The token embedding, its rows split over the tensor group (Shoeybi et al. 2019): a rank adds what it has,
// the sum over the group is the whole.
#pragma once

#include <cstdint>

#include "trainer/parallel/execution.h"
#include "trainer/parallel/linear_parameters.h"

namespace autocfg {

// out[T, H] = rows of the embedding for tokens[T], summed over the tensor group. `vocab_start`: the rank's
// first row.
void VocabParallelEmbeddingForward(const Execution& run, const Weight& wte, std::int64_t vocab_start,
                                   const Tensor& tokens, const Tensor& out);

// The gradients of the rank's rows accumulate.
void VocabParallelEmbeddingBackward(const Execution& run, const Weight& wte, std::int64_t vocab_start,
                                    const Tensor& tokens, const Tensor& dout);

}  // namespace autocfg
