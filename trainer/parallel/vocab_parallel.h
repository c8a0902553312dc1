// The two ends of a model whose vocabulary is split over the tensor group (Shoeybi et al. 2019): the token
// embedding and the loss.
//
// Embedding: each rank adds its own rows of the table, and the sum over the group is complete.
// Cross-entropy: each rank has its columns of the logits. Ranks exchange only a log-sum-exp and two sums per
// token, never the logits.
#pragma once

#include <cstdint>

#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Computes out[R, H], the rank's own rows (token_rows.h) of the embeddings of tokens[T], summed over the
// tensor group. `vocab_start` is the rank's first row of the table.
void VocabParallelEmbeddingForward(const Execution& run, const Weight& wte, std::int64_t vocab_start,
                                   const Tensor& tokens, const Tensor& whole, const Tensor& out);

// Computes the gradients of the rank's rows of the table, given dout[T, H] of all tokens; adds to them if
// `accumulate`.
void VocabParallelEmbeddingBackward(const Execution& run, const Weight& wte, std::int64_t vocab_start,
                                    const Tensor& tokens, const Tensor& dout, bool accumulate);

// Adds the summed loss of the T tokens to `loss`[1] (kF64), on every rank of the tensor group. A rank that
// has whole rows computes the gradient at once and stores it in head.logits. Other ranks store in `head` what
// the backward needs.
void VocabParallelCrossEntropyForward(const Execution& run, const RankShape& shape,
                                      const HeadActivations& head, double scale, const Tensor& loss);

// Leaves in head.logits the gradient with respect to the logits, times `scale`, which must be the forward's.
void VocabParallelCrossEntropyBackward(const Execution& run, const RankShape& shape,
                                       const HeadActivations& head, double scale);

}  // namespace autocfg::trainer
