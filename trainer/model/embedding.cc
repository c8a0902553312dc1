#include "trainer/model/embedding.h"

#include "search/plan/model_stages.h"
#include "trainer/parallel/vocab_parallel.h"

namespace autocfg::trainer {

Embedding::Embedding(const RankShape& shape, const MemoryLayout& layout)
    : shape_(shape),
      wte_(layout.Find(ParameterKind::kTokenEmbedding)),
      wpe_(layout.Find(ParameterKind::kPositionEmbedding)) {}

void Embedding::Forward(const Execution& run, const ActivationSlot& slot) const {
  const Tensor& x = slot.layers.front().x;
  VocabParallelEmbeddingForward(run, wte_, shape_.vocab_start, slot.tokens, x);
  if (!wpe_.present()) return;
  run.ops.PositionForward(x.Reshape({shape_.micro_batch, shape_.seq_len, shape_.hidden}), wpe_.value,
                          run.stream);
}

void Embedding::Backward(const Execution& run, const ActivationSlot& slot, const Tensor& grad,
                         bool accumulate) const {
  if (wpe_.present()) {
    run.ops.PositionBackward(grad.Reshape({shape_.micro_batch, shape_.seq_len, shape_.hidden}), wpe_.grad,
                             accumulate, run.stream);
  }
  VocabParallelEmbeddingBackward(run, wte_, shape_.vocab_start, slot.tokens, grad,
                                 accumulate || EmbeddingAddsToHead(shape_.model, shape_.plan));
}

}  // namespace autocfg::trainer
