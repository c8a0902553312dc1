// Sums of gradients over ranks that hold the same parameters.
#pragma once

#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Sums the whole gradient region over the data group. Losses are scaled by the global batch, so the sum is
// the gradient.
void ReduceGradients(const Execution& run, const Tensor& all_gradients);

// Sums the embedding's gradient over the first and the last rank of the pipeline, which both hold the tied
// embedding.
void SumTiedEmbedding(const Execution& run, const Tensor& wte_gradient);

}  // namespace autocfg::trainer
