// Cross-entropy over logits whose columns may be split over the tensor group (Shoeybi et al. 2019): only a
// log-sum-exp and two sums per token are exchanged, never the logits.
#pragma once

#include "trainer/model/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg {

// Adds the summed loss of the T tokens to `loss`[1] (kF64), on every rank of the tensor group. A rank that
// has whole rows makes the gradient at once, while they are at hand: head.logits holds it from here on.
// Others leave in `head` what the backward needs.
void VocabParallelCrossEntropyForward(const Execution& run, const RankShape& shape,
                                      const HeadActivations& head, double scale, const Tensor& loss);

// head.logits holds the gradient by the logits, times `scale`, which is the forward's.
void VocabParallelCrossEntropyBackward(const Execution& run, const RankShape& shape,
                                       const HeadActivations& head, double scale);

}  // namespace autocfg
