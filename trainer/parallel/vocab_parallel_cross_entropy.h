// Cross-entropy over logits whose columns are split over the tensor group (Shoeybi et al. 2019): only a
// maximum and two sums per token are exchanged, never the logits.
#pragma once

#include "trainer/model/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg {

// Adds the summed loss of the T tokens to `loss`[1] (kF64), on every rank of the tensor group. Leaves in
// `head` what the backward needs.
void VocabParallelCrossEntropyForward(const Execution& run, const RankShape& shape,
                                      const HeadActivations& head, const Tensor& loss);

// head.logits becomes the gradient by the logits, times `scale`.
void VocabParallelCrossEntropyBackward(const Execution& run, const RankShape& shape,
                                       const HeadActivations& head, double scale);

}  // namespace autocfg
