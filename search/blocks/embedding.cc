#include "search/blocks/embedding.h"

#include <utility>

#include "search/blocks/op_lister.h"
#include "search/plan/model_stages.h"

namespace autocfg {

std::vector<OpDesc> EmbeddingForwardOps(const RunView& run) {
  OpLister l(run);
  l.Add(OpKind::kEmbeddingForward, l.types().compute, {l.dims.tokens, l.dims.hidden, l.dims.vocab});
  l.ReduceHidden();
  if (run.model.embedding_scale != 1) l.OwnRows(OpKind::kScale);
  if (run.model.embedding_norm && run.model.position != Position::kLearned) l.NormForward();
  return std::move(l.ops);
}

std::vector<OpDesc> PositionForwardOps(const RunView& run) {
  OpLister l(run);
  if (run.model.position != Position::kLearned) return {};
  l.OwnRows(OpKind::kPositionForward);
  if (run.model.embedding_norm) l.NormForward();
  return std::move(l.ops);
}

std::vector<OpDesc> PositionBackwardOps(const RunView& run, bool accumulate) {
  OpLister l(run);
  if (run.model.position != Position::kLearned) return {};
  if (run.model.embedding_norm) l.NormBackward(accumulate);
  l.GatherHidden();
  l.Rows(OpKind::kPositionBackward, l.dims.hidden);
  l.ops.back().accumulate = l.Adds(accumulate);
  return std::move(l.ops);
}

std::vector<OpDesc> EmbeddingBackwardOps(const RunView& run, bool accumulate) {
  OpLister l(run);
  if (run.model.position != Position::kLearned) {
    if (run.model.embedding_norm) l.NormBackward(accumulate);
    l.GatherHidden();
  }
  if (run.model.embedding_scale != 1) l.Rows(OpKind::kScale, l.dims.hidden);
  l.Add(OpKind::kEmbeddingBackward, l.types().compute, {l.dims.tokens, l.dims.hidden, l.dims.vocab});
  l.ops.back().accumulate = l.Adds(accumulate) || EmbeddingAddsToHead(run.model, run.plan);
  return std::move(l.ops);
}

std::int64_t EmbeddingBytes(const ModelSpec& model, const TensorBytes& bytes) {
  const std::int64_t ids = AlignedBytes(bytes.dims.tokens * SizeOf(DType::kI32));
  return ids + (model.embedding_norm ? bytes.Hidden() + bytes.Norm() : 0) +
         (model.dropout > 0 ? bytes.HiddenMask() : 0);
}

}  // namespace autocfg
