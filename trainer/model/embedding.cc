#include "trainer/model/embedding.h"

#include "search/plan/model_stages.h"
#include "trainer/parallel/token_rows.h"
#include "trainer/parallel/vocab_parallel.h"

namespace autocfg::trainer {

Embedding::Embedding(const RankShape& shape, const MemoryLayout& layout)
    : shape_(shape),
      workspace_(layout.workspace()),
      wte_(layout.Find(ParameterKind::kTokenEmbedding)),
      wpe_(layout.Find(ParameterKind::kPositionEmbedding)) {}

void Embedding::Forward(const Execution& run, const ActivationSlot& slot) const {
  const Tensor& x = slot.layers.front().x;
  VocabParallelEmbeddingForward(run, wte_, shape_.vocab_start, slot.tokens, workspace_.whole, x);
  if (!wpe_.present()) return;
  run.ops.PositionForward(x, shape_.seq_len, shape_.first_row, wpe_.value, run.stream);
}

void Embedding::Backward(const Execution& run, const ActivationSlot& slot, const Tensor& grad,
                         bool accumulate) const {
  const Tensor all = GatherRows(run, grad, workspace_.whole);
  if (wpe_.present()) {
    run.ops.PositionBackward(all.Reshape({shape_.micro_batch, shape_.seq_len, shape_.hidden}), wpe_.grad,
                             accumulate, run.stream);
  }
  VocabParallelEmbeddingBackward(run, wte_, shape_.vocab_start, slot.tokens, all,
                                 accumulate || EmbeddingAddsToHead(shape_.model, shape_.plan));
}

}  // namespace autocfg::trainer
