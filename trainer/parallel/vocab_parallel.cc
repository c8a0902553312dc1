#include "trainer/parallel/vocab_parallel.h"

#include "trainer/parallel/token_rows.h"

namespace autocfg::trainer {
namespace {

LogitForm LogitsOf(const RankShape& shape) {
  return {.valid = shape.vocab_valid, .softcap = shape.model.output_softcap};
}

}  // namespace

void VocabParallelEmbeddingForward(const Execution& run, const Weight& wte, std::int64_t vocab_start,
                                   const Tensor& tokens, const Tensor& whole, const Tensor& out) {
  const Tensor& sums = SumsOf(run, out, whole);
  run.ops.EmbeddingForward(tokens, wte.value, vocab_start, sums, run.stream);
  ReduceRows(run, sums, out);
}

void VocabParallelEmbeddingBackward(const Execution& run, const Weight& wte, std::int64_t vocab_start,
                                    const Tensor& tokens, const Tensor& dout, bool accumulate) {
  run.ops.EmbeddingBackward(tokens, dout, vocab_start, wte.grad, accumulate, run.stream);
}

void VocabParallelCrossEntropyForward(const Execution& run, const RankShape& shape,
                                      const HeadActivations& head, double scale, const Tensor& loss) {
  if (run.groups.tensor == nullptr) {
    run.ops.CrossEntropy(head.logits, LogitsOf(shape), head.targets, scale, loss, run.stream);
    return;
  }
  run.ops.CrossEntropyForward(head.logits, LogitsOf(shape), head.targets, shape.vocab_start, head.max,
                              head.sums, run.stream);
  run.AllReduce(run.groups.tensor, head.max, ReduceOp::kMax);
  run.ops.CrossEntropyRescale(head.max, head.sums, run.stream);
  run.AllReduce(run.groups.tensor, head.sums, ReduceOp::kSum);
  run.ops.CrossEntropyLoss(head.max, head.sums, loss, run.stream);
}

void VocabParallelCrossEntropyBackward(const Execution& run, const RankShape& shape,
                                       const HeadActivations& head, double scale) {
  if (run.groups.tensor == nullptr) return;
  run.ops.CrossEntropyBackward(head.logits, LogitsOf(shape), head.sums, head.targets, shape.vocab_start,
                               scale, run.stream);
}

}  // namespace autocfg::trainer
