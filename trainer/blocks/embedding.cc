#include "trainer/blocks/embedding.h"

#include "search/plan/model_stages.h"
#include "trainer/parallel/token_rows.h"
#include "trainer/parallel/unit_exchange.h"
#include "trainer/parallel/vocab_parallel.h"

namespace autocfg::trainer {

Embedding::Embedding(const RankShape& shape, const MemoryLayout& layout)
    : shape_(shape),
      workspace_(layout.workspace()),
      wte_(layout.Find(ParameterKind::kTokenEmbedding)),
      wpe_(layout.Find(ParameterKind::kPositionEmbedding)),
      norm_(shape, layout, ParameterKind::kEmbeddingNormWeight, ParameterKind::kEmbeddingNormBias) {}

void Embedding::Scale(const Execution& run, const Tensor& rows) const {
  const double scale = shape_.model.embedding_scale;
  if (scale != 1) run.ops.Scale(rows, scale, rows, run.stream);
}

void Embedding::Forward(const Execution& run, const ActivationSlot& slot) const {
  const bool normed = shape_.model.embedding_norm;
  const Tensor& x = normed ? slot.embedded : slot.layers.front().x;
  run.units->Read(run, wte_.unit);
  VocabParallelEmbeddingForward(run, wte_, shape_.vocab_start, slot.tokens, workspace_.whole, x);
  Scale(run, x);
  if (wpe_.present()) {
    run.units->Read(run, wpe_.unit);
    run.ops.PositionForward(x, shape_.seq_len, shape_.first_row, wpe_.value, run.stream);
  }
  if (normed) norm_.Forward(run, x, slot.layers.front().x, slot.embedding_norm);
}

void Embedding::Backward(const Execution& run, const ActivationSlot& slot, const Tensor& grad,
                         bool accumulate) const {
  run.units->Write(run, wpe_.present() ? wpe_.unit : wte_.unit);
  if (shape_.model.embedding_norm) {
    norm_.Backward(run, grad, slot.embedded, slot.embedding_norm, grad, /*add_to_dx=*/false, accumulate);
  }
  const Tensor all = GatherRows(run, grad, workspace_.whole);
  if (wpe_.present()) {
    run.ops.PositionBackward(all.Reshape({shape_.micro_batch, shape_.seq_len, shape_.hidden}), wpe_.grad,
                             run.Adds(accumulate), run.stream);
    run.units->Reduce(run, wpe_.unit, accumulate);
    run.units->Write(run, wte_.unit);
  }
  Scale(run, all);
  VocabParallelEmbeddingBackward(run, wte_, shape_.vocab_start, slot.tokens, all,
                                 run.Adds(accumulate) || EmbeddingAddsToHead(shape_.model, shape_.plan));
  run.units->Reduce(run, wte_.unit, accumulate);
}

}  // namespace autocfg::trainer
