#include "search/blocks/attention.h"

#include <algorithm>
#include <array>

namespace autocfg {

// One product, or with key-value heads that ranks share, whose weights are parameters of their own, one for k
// and v and one for q, beside copies of their columns.
void AttentionBlock::QkvForward() const {
  const LocalDims& s = l.dims;
  if (s.kv_replicas == 1) return l.Linear(s.qkv, s.hidden, l.model().qkv_bias);
  for (const std::int64_t width : {s.qkv - s.attention, s.attention}) {
    l.Linear(width, s.hidden, l.model().qkv_bias);
    l.Rows(OpKind::kCopyColumns, width);
  }
}

void AttentionBlock::QkvWeightGradient(bool accumulate) const {
  const LocalDims& s = l.dims;
  const bool bias = l.model().qkv_bias;
  l.GatherHidden();
  if (s.kv_replicas == 1) return l.LinearGradient(s.hidden, s.qkv, accumulate, bias);
  l.LinearGradient(s.hidden, s.qkv - s.attention, accumulate, bias);
  l.LinearGradient(s.hidden, s.attention, accumulate, bias);
}

// Norms of each head, or of all heads, for which the tensor group sums over a token's columns.
void AttentionBlock::QkNorm(OpKind of_heads, OpKind sums, OpKind of_all, bool accumulate) const {
  if (l.model().qk_norm == autocfg::QkNorm::kNone) return;
  const LocalDims& s = l.dims;
  const std::array<std::int64_t, 5> sizes = {s.tokens, s.heads, s.head_dim, s.kv_heads};
  const bool full = l.model().qk_norm == autocfg::QkNorm::kFull;
  if (full) {
    l.Add(sums, l.types().compute, sizes);
    l.TensorReduce(OpKind::kAllReduceSum, l.types().statistics, 2 * s.tokens);
  }
  l.Add(full ? of_all : of_heads, l.types().compute, sizes);
  l.ops.back().accumulate = accumulate;
}

void AttentionBlock::Rope() const {
  if (!kind_.rotates || l.model().position != Position::kRope) return;
  l.Add(OpKind::kRope, l.types().compute,
        {l.dims.tokens, l.dims.heads + l.dims.kv_heads, l.dims.head_dim, RotaryDims(l.model())});
}

void AttentionBlock::Attend(OpKind fused, OpKind unfused) const {
  const LocalDims& s = l.dims;
  const std::int64_t chunk = kind_.chunk == 0 ? s.seq_len : std::min(kind_.chunk, s.seq_len);
  l.Add(IsUnfused(l.plan()) ? unfused : fused, l.types().compute,
        {s.micro_batch * (s.seq_len / chunk), chunk, s.heads, s.head_dim, s.kv_heads});
  OpDesc& op = l.ops.back();
  op.alibi = l.model().position == Position::kAlibi;
  op.softcap = l.model().attention_softcap != 0;
  op.window = kind_.window < s.seq_len ? kind_.window : 0;
}

void AttentionBlock::InnerForward() const {
  InputNormForward();
  l.GatherHidden();
  QkvForward();
  QkNorm(OpKind::kHeadNormForward, OpKind::kQkSquares, OpKind::kQkNormForward, false);
  Rope();
  Attend(OpKind::kAttentionForward, OpKind::kUnfusedAttentionForward);
}

void AttentionBlock::RecomputeNorm() const {
  if (RecomputesPart(l.plan(), LayerPart::kNorm)) InputNormForward();
}

void AttentionBlock::RecomputeScores() const {
  if (RecomputesPart(l.plan(), LayerPart::kCoreAttention))
    Attend(OpKind::kAttentionForward, OpKind::kUnfusedAttentionForward);
}

void AttentionBlock::OutputBackward(Gradients gradients, bool accumulate, bool own_stream) const {
  ProjectionGradient(gradients, accumulate, own_stream);
  if (OfInputs(gradients)) l.Matmul(l.dims.tokens, l.dims.attention, l.dims.hidden, false, true);
}

void AttentionBlock::InputBackward(Gradients gradients, bool accumulate) const {
  const LocalDims& s = l.dims;
  const std::int64_t keys_and_values = s.qkv - s.attention;
  if (OfInputs(gradients)) {
    Attend(OpKind::kAttentionBackward, OpKind::kUnfusedAttentionBackward);
    Rope();
    QkNorm(OpKind::kHeadNormBackward, OpKind::kQkProducts, OpKind::kQkNormBackward, accumulate);
  }
  if (s.kv_replicas > 1) {
    l.Rows(OpKind::kCopyColumns, keys_and_values);
    l.Rows(OpKind::kCopyColumns, s.attention);
  }
  if (OfWeights(gradients)) QkvWeightGradient(accumulate);
  if (!OfInputs(gradients)) return;
  if (s.kv_replicas == 1) {
    l.ReducedProduct(s.qkv, true);
  } else {
    l.ReducedProduct({keys_and_values, s.attention}, true);
  }
  // A shared norm adds to the gradients that feed-forward has written.
  InputNormBackward(accumulate || l.model().shared_norm);
}

BlockBytes AttentionBytes(const RunView& run, const TensorBytes& t) {
  const LocalDims& s = t.dims;
  const ModelSpec& model = run.model;
  BlockBytes bytes;
  if (NormsInputs(model.norm_placement))
    bytes.Keep(t.Norm() + t.Hidden(), RecomputesPart(run.plan, LayerPart::kNorm));
  bytes.Keep(t.Rows(s.qkv) + t.Rows(s.attention) + t.Hidden());  // and the sum with the residual
  if (IsUnfused(run.plan)) {
    // With dropout also what is left of the weights, and which were dropped (Korthikanti et al. 2022).
    const std::int64_t dropped = AttentionDropout(model) > 0 ? t.Scores() + t.ScoreMask() : 0;
    bytes.Keep(t.Scores() + dropped, RecomputesPart(run.plan, LayerPart::kCoreAttention));
  } else {
    bytes.Keep(t.Statistics(s.micro_batch * s.heads * s.seq_len));
  }
  if (model.dropout > 0) bytes.Keep(t.HiddenMask());
  const std::int64_t norms = t.Statistics(s.tokens * QkNormStatistics(model, s));
  if (model.qk_norm != QkNorm::kNone) bytes.Keep(t.Rows((s.heads + s.kv_heads) * s.head_dim) + norms);
  if (NormsOutputs(model.norm_placement)) bytes.Keep(t.Norm() + t.Hidden());  // what the norm reads

  bytes.workspace = t.Rows(s.qkv) + t.Rows(s.attention);
  bytes.workspace +=
      IsUnfused(run.plan) ? t.Scores() : t.Statistics(AttentionWorkspaceElements(s.seq_len, s.head_dim));
  if (model.qk_norm == QkNorm::kFull) bytes.workspace += norms;
  if (s.kv_replicas > 1) bytes.workspace += t.Rows(s.qkv - s.attention);  // keys and values apart
  return bytes;
}

}  // namespace autocfg
