#include "trainer/model/transformer_layer.h"

#include <algorithm>
#include <utility>

#include "search/shapes/rotary_frequencies.h"
#include "trainer/parallel/parallel_linear.h"

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

// Returns the norms on outputs of a layer. In a model without others they are ln_1 and ln_2.
NormLayer OutputNorm(const RankShape& shape, const MemoryLayout& layout, std::int64_t layer, Kind weight,
                     Kind bias, Kind only_weight, Kind only_bias) {
  const bool only = shape.model.norm_placement == NormPlacement::kOutput;
  return {shape, layout.Find(only ? only_weight : weight, layer),
          layout.Find(only ? only_bias : bias, layer)};
}

}  // namespace

TransformerLayer::TransformerLayer(const RankShape& shape, MemoryLayout& layout, std::int64_t layer)
    : shape_(shape),
      workspace_(layout.workspace()),
      kind_(KindOf(shape.model, layer)),
      rotates_(shape.model.position == Position::kRope && kind_.rotary),
      chunk_(kind_.chunk == 0 ? shape.seq_len : std::min(kind_.chunk, shape.seq_len)),
      frequencies_(rotates_ ? FrequenciesOf(shape.model, shape.seq_len, kind_) : RotaryFrequencies{}),
      attention_form_(FormOf(shape, kind_)),
      norm_1_(shape, layout.Find(Kind::kNorm1Weight, layer), layout.Find(Kind::kNorm1Bias, layer)),
      c_attn_(layout, layer),
      q_norm_(layout.Find(Kind::kQueryNormWeight, layer)),
      k_norm_(layout.Find(Kind::kKeyNormWeight, layer)),
      attn_proj_{layout.Find(Kind::kAttentionOutWeight, layer), layout.Find(Kind::kAttentionOutBias, layer)},
      norm_2_(shape, layout.Find(Kind::kNorm2Weight, layer), layout.Find(Kind::kNorm2Bias, layer)),
      c_fc_{layout.Find(Kind::kFcWeight, layer), layout.Find(Kind::kFcBias, layer)},
      mlp_proj_{layout.Find(Kind::kProjWeight, layer), layout.Find(Kind::kProjBias, layer)},
      out_norm_1_(OutputNorm(shape, layout, layer, Kind::kPostNorm1Weight, Kind::kPostNorm1Bias,
                             Kind::kNorm1Weight, Kind::kNorm1Bias)),
      out_norm_2_(OutputNorm(shape, layout, layer, Kind::kPostNorm2Weight, Kind::kPostNorm2Bias,
                             Kind::kNorm2Weight, Kind::kNorm2Bias)) {}

Tensor TransformerLayer::BySequence(const Tensor& t) const {
  return t.Reshape({shape_.micro_batch, shape_.seq_len, t.shape[1]});
}

Tensor TransformerLayer::ByChunk(const Tensor& t) const {
  return t.Reshape({shape_.tokens / chunk_, chunk_, t.shape[1]});
}

Tensor TransformerLayer::LseByChunk(const Tensor& lse) const {
  return lse.Reshape({shape_.tokens / chunk_, shape_.heads, chunk_});
}

Tensor TransformerLayer::ScoresByChunk(const Tensor& scores) const {
  const std::int64_t chunks = shape_.tokens / chunk_;
  return scores.Slice(0, chunks * shape_.heads * chunk_ * chunk_)
      .Reshape({chunks, shape_.heads, chunk_, chunk_});
}

void TransformerLayer::QkNormForward(const Execution& run, const LayerActivations& a) const {
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

void TransformerLayer::QkNormBackward(const Execution& run, const LayerActivations& a,
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

void TransformerLayer::Rope(const Execution& run, const Tensor& qkv, bool inverse) const {
  if (!rotates_) return;
  run.ops.Rope(BySequence(qkv), shape_.heads + shape_.kv_heads, shape_.head_dim, RotaryDims(shape_.model),
               frequencies_, inverse, run.stream);
}

void TransformerLayer::AttentionForward(const Execution& run, const LayerActivations& a) const {
  const Tensor qkv = ByChunk(a.qkv), attn = ByChunk(a.attn);
  if (IsUnfused(shape_.plan)) {
    run.ops.UnfusedAttentionForward(qkv, attention_form_, ScoresByChunk(a.probabilities), attn, run.stream);
  } else {
    run.ops.AttentionForward(qkv, attention_form_, attn, LseByChunk(a.lse), workspace_.attention, run.stream);
  }
}

void TransformerLayer::AttentionBackward(const Execution& run, const LayerActivations& a) const {
  const Workspace& ws = workspace_;
  const Tensor qkv = ByChunk(a.qkv), attn = ByChunk(a.attn), grad_attn = ByChunk(ws.grad_attn),
               grad_qkv = ByChunk(ws.grad_qkv);
  if (IsUnfused(shape_.plan)) {
    run.ops.UnfusedAttentionBackward(qkv, attention_form_, ScoresByChunk(a.probabilities), attn, grad_attn,
                                     grad_qkv, ScoresByChunk(ws.dscores), run.stream);
  } else {
    run.ops.AttentionBackward(qkv, attention_form_, attn, LseByChunk(a.lse), grad_attn, grad_qkv,
                              ws.attention, run.stream);
  }
}

void TransformerLayer::Norm2Backward(const Execution& run, const Tensor& grad_ln2, const LayerActivations& a,
                                     const Tensor& dx, bool add_to_dx, bool accumulate) const {
  if (!NormsInputs(shape_.model.norm_placement)) {
    run.ops.ResidualAdd(dx, grad_ln2, run.stream);
  } else if (shape_.model.shared_norm) {
    norm_1_.Backward(run, grad_ln2, a.x, a.norm1, dx, add_to_dx, accumulate);
  } else {
    norm_2_.Backward(run, grad_ln2, shape_.model.parallel_residual ? a.x : a.mid, a.norm2, dx, add_to_dx,
                     accumulate);
  }
}

void TransformerLayer::Norm1Backward(const Execution& run, const Tensor& grad_ln1, const LayerActivations& a,
                                     const Tensor& dx, bool add_to_dx, bool accumulate) const {
  if (!NormsInputs(shape_.model.norm_placement)) return run.ops.ResidualAdd(dx, grad_ln1, run.stream);
  norm_1_.Backward(run, grad_ln1, a.x, a.norm1, dx, add_to_dx, accumulate || shape_.model.shared_norm);
}

void TransformerLayer::AddBlock(const Execution& run, const BlockEnd& block, const Tensor& x,
                                const Tensor& residual, const Tensor& y) const {
  const Tensor& whole = workspace_.whole;
  const double scale = shape_.model.residual_scale;
  if (!norms_outputs() && scale == 1) return RowParallelForward(run, block.proj, x, residual, whole, y);
  RowParallelForward(run, block.proj, x, whole, norms_outputs() ? block.out : y);
  if (norms_outputs()) block.norm.Forward(run, block.out, y, block.statistics);
  if (scale != 1) run.ops.Scale(y, scale, y, run.stream);
  run.ops.ResidualAdd(y, residual, run.stream);
}

const Tensor& TransformerLayer::BlockGradient(const Execution& run, const BlockEnd& block, const Tensor& grad,
                                              bool accumulate) const {
  const double scale = shape_.model.residual_scale;
  if (!norms_outputs() && scale == 1) return grad;
  const Tensor& block_grad = workspace_.grad_block;
  if (scale != 1) run.ops.Scale(grad, scale, block_grad, run.stream);
  if (norms_outputs()) {
    block.norm.Backward(run, scale != 1 ? block_grad : grad, block.out, block.statistics, block_grad,
                        /*add_to_dx=*/false, accumulate);
  }
  return block_grad;
}

void TransformerLayer::Norm1Forward(const Execution& run, const LayerActivations& a) const {
  if (NormsInputs(shape_.model.norm_placement)) norm_1_.Forward(run, a.x, a.ln1, a.norm1);
}

void TransformerLayer::Norm2Forward(const Execution& run, const LayerActivations& a) const {
  const ModelSpec& m = shape_.model;
  if (NormsInputs(m.norm_placement) && !m.shared_norm)
    norm_2_.Forward(run, m.parallel_residual ? a.x : a.mid, a.ln2, a.norm2);
}

void TransformerLayer::FcForward(const Execution& run, const LayerActivations& a) const {
  ColumnParallelActivationForward(run, shape_.model.activation, c_fc_, Ln2(a), workspace_.whole, a.fc, a.act);
}

void TransformerLayer::ForwardHead(const Execution& run, const LayerActivations& a) const {
  Norm1Forward(run, a);
  c_attn_.Forward(run, Ln1(a), a.qkv);
  QkNormForward(run, a);
  Rope(run, a.qkv, /*inverse=*/false);
  AttentionForward(run, a);
  AddBlock(run, AttentionEnd(a), a.attn, a.x, a.mid);
  Norm2Forward(run, a);
  FcForward(run, a);
}

void TransformerLayer::Recompute(const Execution& run, const LayerActivations& a) const {
  ForwardHead(run, a);
  if (!norms_outputs()) return;
  RowParallelForward(run, mlp_proj_, a.act, workspace_.whole, a.out2);
  // Of its results, the backward needs the statistics alone.
  out_norm_2_.Forward(run, a.out2, workspace_.grad_block, a.out_norm2);
}

void TransformerLayer::RecomputeParts(const Execution& run, const LayerActivations& a) const {
  const ParallelPlan& plan = shape_.plan;
  if (RecomputesPart(plan, LayerPart::kNorm)) Norm1Forward(run, a);
  if (RecomputesPart(plan, LayerPart::kCoreAttention)) AttentionForward(run, a);
  if (RecomputesPart(plan, LayerPart::kNorm)) Norm2Forward(run, a);
  if (RecomputesPart(plan, LayerPart::kMlp)) {
    FcForward(run, a);
  } else if (RecomputesPart(plan, LayerPart::kActivation)) {
    // fc has its bias.
    run.ops.ActivationForward(shape_.model.activation, a.fc, {}, a.act, run.stream);
  }
}

void TransformerLayer::Forward(const Execution& run, const LayerActivations& a, const Tensor& out) const {
  ForwardHead(run, a);
  AddBlock(run, MlpEnd(a), a.act, a.mid, out);
}

void TransformerLayer::Backward(const Execution& run, const LayerActivations& a, const Tensor& grad,
                                bool accumulate) const {
  const RankShape& s = shape_;
  const Workspace& ws = workspace_;
  const bool parallel = s.model.parallel_residual;
  const Tensor mlp_grad = BlockGradient(run, MlpEnd(a), grad, accumulate);
  RowParallelActivationBackward(run, s.model.activation, mlp_proj_, a.act, mlp_grad, ws.whole, a.fc,
                                ws.grad_ffn, ws.grad_fc, accumulate);
  // Side by side, both blocks read the gradient of the output. Else attention reads that of its own output.
  const auto attention_out = [&] {
    const Tensor attn_grad = parallel ? mlp_grad : BlockGradient(run, AttentionEnd(a), grad, accumulate);
    RowParallelBackward(run, attn_proj_, a.attn, attn_grad, ws.whole, ws.grad_attn, accumulate);
  };
  if (parallel) attention_out();
  const Tensor grad_ln2 = ColumnParallelBackward(run, c_fc_, Ln2(a), ws.grad_fc, ws.whole, accumulate);
  Norm2Backward(run, grad_ln2, a, grad, /*add_to_dx=*/true, accumulate);
  if (!parallel) attention_out();
  AttentionBackward(run, a);
  Rope(run, ws.grad_qkv, /*inverse=*/true);
  QkNormBackward(run, a, accumulate);
  const Tensor grad_ln1 = c_attn_.Backward(run, Ln1(a), ws.grad_qkv, accumulate);
  Norm1Backward(run, grad_ln1, a, grad, /*add_to_dx=*/true, accumulate);
}

void TransformerLayer::InputGradient(const Execution& run, LayerActivations& a, const Tensor& grad,
                                     const Tensor& input_grad, bool accumulate) const {
  const RankShape& s = shape_;
  Workspace& ws = workspace_;
  const Tensor mlp_grad = BlockGradient(run, MlpEnd(a), grad, accumulate);
  RowParallelActivationInputGradient(run, s.model.activation, mlp_proj_, mlp_grad, ws.whole, a.fc,
                                     ws.grad_ffn, ws.grad_fc);
  if (norms_outputs()) std::swap(a.out2, ws.grad_block);
  std::swap(a.fc, ws.grad_fc);
  if (!IsGated(s.model.activation)) ws.grad_ffn = ws.grad_fc;
  const bool parallel = s.model.parallel_residual;
  if (parallel) RowParallelInputGradient(run, attn_proj_, mlp_grad, ws.whole, ws.grad_attn);
  const Tensor grad_ln2 = ColumnParallelInputGradient(run, c_fc_, a.fc, ws.whole);
  if (norms_outputs()) {
    Norm2Backward(run, grad_ln2, a, grad, /*add_to_dx=*/true, accumulate);
  } else {
    Norm2Backward(run, grad_ln2, a, parallel ? input_grad : ws.next_grad, /*add_to_dx=*/false, accumulate);
  }
  if (!parallel) {
    if (!norms_outputs()) {
      run.ops.ResidualAdd(ws.next_grad, grad, run.stream);
      std::swap(a.mid, ws.next_grad);
    }
    const Tensor& mid_grad = norms_outputs() ? grad : a.mid;
    const Tensor attn_grad = BlockGradient(run, AttentionEnd(a), mid_grad, accumulate);
    RowParallelInputGradient(run, attn_proj_, attn_grad, ws.whole, ws.grad_attn);
    if (norms_outputs()) std::swap(a.out1, ws.grad_block);
  }
  AttentionBackward(run, a);
  Rope(run, ws.grad_qkv, /*inverse=*/true);
  QkNormBackward(run, a, accumulate);
  std::swap(a.qkv, ws.grad_qkv);
  const Tensor grad_ln1 = c_attn_.InputGradient(run, a.qkv);
  Norm1Backward(run, grad_ln1, a, input_grad, /*add_to_dx=*/parallel || norms_outputs(), accumulate);
  if (norms_outputs()) return;
  run.ops.ResidualAdd(input_grad, parallel ? grad : a.mid, run.stream);
}

void TransformerLayer::WeightGradient(const Execution& run, const LayerActivations& a, const Tensor& grad,
                                      bool accumulate) const {
  const Tensor& whole = workspace_.whole;
  // With norms on outputs, InputGradient left it in the place of what the norm read.
  const auto block_gradient = [&](const BlockEnd& block, const Tensor& of_stream) {
    return norms_outputs() ? block.out : BlockGradient(run, block, of_stream, accumulate);
  };
  const Tensor mlp_grad = block_gradient(MlpEnd(a), grad);
  RowParallelWeightGradient(run, mlp_proj_, a.act, mlp_grad, whole, accumulate);
  ColumnParallelWeightGradient(run, c_fc_, Ln2(a), a.fc, whole, accumulate);
  const Tensor attn_grad = shape_.model.parallel_residual ? mlp_grad : block_gradient(AttentionEnd(a), a.mid);
  RowParallelWeightGradient(run, attn_proj_, a.attn, attn_grad, whole, accumulate);
  c_attn_.WeightGradient(run, Ln1(a), a.qkv, accumulate);
}

}  // namespace autocfg::trainer
