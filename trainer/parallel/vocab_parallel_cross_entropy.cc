#include "trainer/parallel/vocab_parallel_cross_entropy.h"

namespace autocfg {

void VocabParallelCrossEntropyForward(const Execution& run, const RankShape& shape,
                                      const HeadActivations& head, const Tensor& loss) {
  run.ops.CrossEntropyMax(head.logits, shape.vocab_valid, head.max, run.stream);
  run.AllReduce(run.groups.tensor, head.max, ReduceOp::kMax);
  run.ops.CrossEntropySum(head.logits, shape.vocab_valid, head.max, head.targets, shape.vocab_start,
                          head.sums, run.stream);
  run.AllReduce(run.groups.tensor, head.sums, ReduceOp::kSum);
  run.ops.CrossEntropyLoss(head.sums, loss, run.stream);
}

void VocabParallelCrossEntropyBackward(const Execution& run, const RankShape& shape,
                                       const HeadActivations& head, double scale) {
  run.ops.CrossEntropyBackward(head.logits, head.sums, head.targets, shape.vocab_start, scale, run.stream);
}

}  // namespace autocfg
