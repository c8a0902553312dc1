#include "trainer/blocks/attention.h"

#include <algorithm>
#include <utility>

#include "search/shapes/rotary_frequencies.h"

namespace autocfg::trainer {

using Kind = ParameterKind;

namespace {

AttentionForm FormOf(const RankShape& s, const LayerRun& kind) {
  AttentionForm form{.heads = s.heads,
                     .kv_heads = s.kv_heads,
                     .scale = s.model.attention_scale,
                     .softcap = s.model.attention_softcap,
                     .window = kind.window};
  if (s.model.position == Position::kAlibi) {
    form.alibi_heads = s.model.heads;
    form.first_head = s.tensor * s.heads;
  }
  return form;
}

}  // namespace

AttentionBlock::AttentionBlock(const RankShape& shape, MemoryLayout& layout, std::int64_t layer)
    : ResidualBlock(shape, layout, layer, BlockKind::kAttention),
      kind_(KindOf(shape.model, layer)),
      rotates_(shape.model.position == Position::kRope && kind_.rotary),
      chunk_(kind_.chunk == 0 ? shape.seq_len : std::min(kind_.chunk, shape.seq_len)),
      frequencies_(rotates_ ? FrequenciesOf(shape.model, shape.seq_len, kind_) : RotaryFrequencies{}),
      form_(FormOf(shape, kind_)),
      qkv_(layout, layer),
      q_norm_(layout.Find(Kind::kQueryNormWeight, layer)),
      k_norm_(layout.Find(Kind::kKeyNormWeight, layer)) {}

Tensor AttentionBlock::ByChunk(const Tensor& t) const {
  return t.Reshape({shape_.tokens / chunk_, chunk_, t.shape[1]});
}

Tensor AttentionBlock::LseByChunk(const Tensor& lse) const {
  return lse.Reshape({shape_.tokens / chunk_, shape_.heads, chunk_});
}

Tensor AttentionBlock::ScoresByChunk(const Tensor& scores) const {
  const std::int64_t chunks = shape_.tokens / chunk_;
  return scores.Slice(0, chunks * shape_.heads * chunk_ * chunk_)
      .Reshape({chunks, shape_.heads, chunk_, chunk_});
}

void AttentionBlock::QkNormForward(const Execution& run, const AttentionActivations& a) const {
  const RankShape& s = shape_;
  const double eps = s.model.norm_eps;
  const Tensor &gamma_q = q_norm_.value, &gamma_k = k_norm_.value;
  switch (s.model.qk_norm) {
    case QkNorm::kNone: return;
    case QkNorm::kHead:
      return run.ops.HeadNormForward(a.qkv, s.heads, s.kv_heads, gamma_q, gamma_k, eps, a.raw_qk, a.rstd_qk,
                                     run.stream);
    case QkNorm::kFull:
      run.ops.QkSquares(a.qkv, s.heads, s.kv_heads, a.rstd_qk, run.stream);
      run.AllReduce(run.groups.tensor, a.rstd_qk, ReduceOp::kSum);
      return run.ops.QkNormForward(a.qkv, s.heads, s.kv_heads, s.plan.tp, gamma_q, gamma_k, eps, a.raw_qk,
                                   a.rstd_qk, run.stream);
  }
}

void AttentionBlock::QkNormBackward(const Execution& run, const AttentionActivations& a,
                                    bool accumulate) const {
  const RankShape& s = shape_;
  const Tensor &dqkv = workspace_.grad_qkv, &products = workspace_.qk_products;
  const Tensor &gamma_q = q_norm_.value, &gamma_k = k_norm_.value;
  switch (s.model.qk_norm) {
    case QkNorm::kNone: return;
    case QkNorm::kHead:
      return run.ops.HeadNormBackward(dqkv, s.heads, s.kv_heads, a.raw_qk, gamma_q, gamma_k, a.rstd_qk,
                                      q_norm_.grad, k_norm_.grad, accumulate, run.stream);
    case QkNorm::kFull:
      run.ops.QkProducts(dqkv, s.heads, s.kv_heads, a.raw_qk, gamma_q, gamma_k, a.rstd_qk, products,
                         run.stream);
      run.AllReduce(run.groups.tensor, products, ReduceOp::kSum);
      return run.ops.QkNormBackward(dqkv, s.heads, s.kv_heads, s.plan.tp, a.raw_qk, gamma_q, gamma_k,
                                    a.rstd_qk, products, q_norm_.grad, k_norm_.grad, accumulate, run.stream);
  }
}

void AttentionBlock::Rope(const Execution& run, const Tensor& qkv, bool inverse) const {
  if (!rotates_) return;
  const Tensor by_sequence = qkv.Reshape({shape_.micro_batch, shape_.seq_len, qkv.shape[1]});
  run.ops.Rope(by_sequence, shape_.heads + shape_.kv_heads, shape_.head_dim, RotaryDims(shape_.model),
               frequencies_, inverse, run.stream);
}

void AttentionBlock::CoreForward(const Execution& run, const AttentionActivations& a) const {
  const Tensor qkv = ByChunk(a.qkv), attn = ByChunk(a.attn);
  if (IsUnfused(shape_.plan)) {
    run.ops.UnfusedAttentionForward(qkv, form_, ScoresByChunk(a.probabilities), attn, run.stream);
  } else {
    run.ops.AttentionForward(qkv, form_, attn, LseByChunk(a.lse), workspace_.attention, run.stream);
  }
}

void AttentionBlock::CoreBackward(const Execution& run, const AttentionActivations& a) const {
  const Workspace& ws = workspace_;
  const Tensor qkv = ByChunk(a.qkv), attn = ByChunk(a.attn), grad_attn = ByChunk(ws.grad_attn),
               grad_qkv = ByChunk(ws.grad_qkv);
  if (IsUnfused(shape_.plan)) {
    run.ops.UnfusedAttentionBackward(qkv, form_, ScoresByChunk(a.probabilities), attn, grad_attn, grad_qkv,
                                     ScoresByChunk(ws.dscores), run.stream);
  } else {
    run.ops.AttentionBackward(qkv, form_, attn, LseByChunk(a.lse), grad_attn, grad_qkv, ws.attention,
                              run.stream);
  }
}

void AttentionBlock::Forward(const Execution& run, const Tensor& x, const AttentionActivations& a,
                             const Tensor& y) const {
  InputNormForward(run, x, a);
  qkv_.Forward(run, Input(x, a), a.qkv);
  QkNormForward(run, a);
  Rope(run, a.qkv, /*inverse=*/false);
  CoreForward(run, a);
  OutputForward(run, a.attn, a, x, y);
}

bool AttentionBlock::recomputes_parts() const {
  return recomputes_norm() || RecomputesPart(shape_.plan, LayerPart::kCoreAttention);
}

void AttentionBlock::RecomputeParts(const Execution& run, const Tensor& x,
                                    const AttentionActivations& a) const {
  if (recomputes_norm()) InputNormForward(run, x, a);
  if (RecomputesPart(shape_.plan, LayerPart::kCoreAttention)) CoreForward(run, a);
}

void AttentionBlock::OutputBackward(const Execution& run, const AttentionActivations& a, const Tensor& grad,
                                    Gradients gradients, bool accumulate) const {
  RowParallelBackward(run, projection_, a.attn, grad, workspace_.whole, workspace_.grad_attn, gradients,
                      accumulate);
}

void AttentionBlock::InputBackward(const Execution& run, const Tensor& x, AttentionActivations& a,
                                   const Tensor& dx, bool add_to_dx, Gradients gradients,
                                   bool accumulate) const {
  Tensor& grad_qkv = workspace_.grad_qkv;
  if (!OfInputs(gradients)) {
    qkv_.Backward(run, Input(x, a), a.qkv, gradients, accumulate);
    return;
  }
  CoreBackward(run, a);
  Rope(run, grad_qkv, /*inverse=*/true);
  QkNormBackward(run, a, accumulate);
  const Tensor grad = qkv_.Backward(run, Input(x, a), grad_qkv, gradients, accumulate);
  InputNormBackward(run, grad, x, a, dx, add_to_dx, accumulate);
  if (OfWeights(gradients)) return;
  KeepOutputGradient(a);
  std::swap(a.qkv, grad_qkv);
}

}  // namespace autocfg::trainer
