#include "trainer/parallel/vocab_parallel_embedding.h"

namespace autocfg::trainer {

void VocabParallelEmbeddingForward(const Execution& run, const Weight& wte, std::int64_t vocab_start,
                                   const Tensor& tokens, const Tensor& out) {
  run.ops.EmbeddingForward(tokens, wte.value, vocab_start, out, run.stream);
  run.AllReduce(run.groups.tensor, out, ReduceOp::kSum);
}

void VocabParallelEmbeddingBackward(const Execution& run, const Weight& wte, std::int64_t vocab_start,
                                    const Tensor& tokens, const Tensor& dout) {
  run.ops.EmbeddingBackward(tokens, dout, vocab_start, wte.grad, run.stream);
}

}  // namespace autocfg::trainer
