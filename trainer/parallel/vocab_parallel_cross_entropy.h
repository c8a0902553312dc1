// Cross-entropy over logits whose columns may be split over the tensor group (Shoeybi et al. 2019). Ranks
// exchange only a log-sum-exp and two sums per token, never the logits.
#pragma once

#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Adds the summed loss of the T tokens to `loss`[1] (kF64), on every rank of the tensor group. A rank that
// has whole rows computes the gradient at once and stores it in head.logits. Other ranks store in `head` what
// the backward needs.
void VocabParallelCrossEntropyForward(const Execution& run, const RankShape& shape,
                                      const HeadActivations& head, double scale, const Tensor& loss);

// Leaves in head.logits the gradient with respect to the logits, times `scale`, which must be the forward's.
void VocabParallelCrossEntropyBackward(const Execution& run, const RankShape& shape,
                                       const HeadActivations& head, double scale);

}  // namespace autocfg::trainer
