#include "search/cost/op_lists/layer_ops.h"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <utility>

#include "search/plan/model_stages.h"
#include "search/shapes/local_dims.h"
#include "search/shapes/token_chunks.h"

namespace autocfg {
namespace {

OpKind ForwardOf(Norm norm) {
  switch (norm) {
    case Norm::kLayerNorm: return OpKind::kLayerNormForward;
    case Norm::kRmsNorm: return OpKind::kRmsNormForward;
  }
  throw std::logic_error("a norm without an op");
}

OpKind BackwardOf(Norm norm) {
  switch (norm) {
    case Norm::kLayerNorm: return OpKind::kLayerNormBackward;
    case Norm::kRmsNorm: return OpKind::kRmsNormBackward;
  }
  throw std::logic_error("a norm without an op");
}

// Appends ops, in the notation of docs/engine.md.
class OpLister {
 public:
  // `kind`: of a layer.
  explicit OpLister(const RunView& run, const LayerKind& kind = {})
      : s(LocalDimsOf(run)), types(run.workload.precision), model_(run.model), plan_(run.plan), kind_(kind) {}

  void Matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool ta = false, bool tb = false,
              bool accumulate = false) {
    OpDesc op{.kind = OpKind::kMatmul, .dtype = types.compute, .dims = {m, n, k}};
    op.transpose_a = ta;
    op.transpose_b = tb;
    op.accumulate = accumulate;
    Append(op);
  }
  // `bias`: whether the linear layer has one.
  void Matmul(Epilogue epilogue, std::int64_t m, std::int64_t n, std::int64_t k, bool bias) {
    Matmul(m, n, k);
    SetEpilogue(ops.back(), epilogue);
    if (HasActivation(ops.back())) ops.back().activation = model_.activation;
    ops.back().bias = TakesBias(ops.back()) && bias;
  }
  // dW[rows of dW, columns] (+)= x^T dy over T tokens, for a matrix without a bias.
  void WeightGradient(std::int64_t rows, std::int64_t columns, bool accumulate) {
    Matmul(rows, columns, s.tokens, true, false, Adds(accumulate));
  }
  // As above for a linear layer, including its bias gradient.
  void LinearGradient(std::int64_t rows, std::int64_t columns, bool accumulate, bool bias) {
    if (bias) {
      Matmul(Epilogue::kBiasGradient, rows, columns, s.tokens, bias);
      ops.back().accumulate = Adds(accumulate);
      ops.back().gradients = GradientsOfOps(types);
    } else {
      WeightGradient(rows, columns, accumulate);
    }
  }
  void Add(OpKind kind, DType type, std::array<std::int64_t, 5> dims) {
    Append({.kind = kind, .dtype = type, .dims = dims});
  }
  void Append(OpDesc op) {
    if (UsesGradients(op)) op.gradients = GradientsOfOps(types);
    ops.push_back(op);
  }
  void Rows(OpKind kind, std::int64_t width) { Add(kind, types.compute, {s.tokens, width}); }
  void Logits(OpKind kind) {
    Rows(kind, s.vocab);
    ops.back().softcap = model_.output_softcap != 0;
  }
  // Of the rank's own tokens, outside of the tensor-parallel ops.
  void OwnRows(OpKind kind) { Add(kind, types.compute, {s.rows, s.hidden}); }
  void NormForward() { OwnRows(ForwardOf(model_.norm)); }
  void NormBackward(bool accumulate) {
    OwnRows(BackwardOf(model_.norm));
    ops.back().accumulate = accumulate;
  }
  void GatedActivation(OpKind kind) {
    Rows(kind, s.ffn);
    ops.back().activation = model_.activation;
    ops.back().bias = kind == OpKind::kActivationForward && model_.mlp_bias;
  }
  // The projection into the feed-forward block and its activation, forward and backward.
  void ActivationForward() {
    if (IsGated(model_.activation)) {
      Matmul(s.tokens, s.fc, s.hidden);
      GatedActivation(OpKind::kActivationForward);
    } else {
      Matmul(Epilogue::kActivation, s.tokens, s.fc, s.hidden, model_.mlp_bias);
    }
  }
  void ActivationBackward() {
    if (IsGated(model_.activation)) {
      Matmul(s.tokens, s.ffn, s.hidden, false, true);
      GatedActivation(OpKind::kActivationBackward);
    } else {
      Matmul(Epilogue::kActivationGradient, s.tokens, s.ffn, s.hidden, false);
    }
  }
  // The projection to q, k and v: one product, or with key-value heads that ranks share, whose weights are
  // parameters of their own, one for k and v and one for q, beside copies of their columns.
  void QkvForward() {
    const auto product = [&](std::int64_t width) {
      Matmul(model_.qkv_bias ? Epilogue::kBias : Epilogue::kNone, s.tokens, width, s.hidden, model_.qkv_bias);
    };
    if (s.kv_replicas == 1) return product(s.qkv);
    for (const std::int64_t width : {s.qkv - s.attention, s.attention}) {
      product(width);
      Rows(OpKind::kCopyColumns, width);
    }
  }
  void TakeQkvParts() {
    if (s.kv_replicas == 1) return;
    Rows(OpKind::kCopyColumns, s.qkv - s.attention);
    Rows(OpKind::kCopyColumns, s.attention);
  }
  void QkvWeightGradient(bool accumulate) {
    GatherHidden();
    if (s.kv_replicas == 1) return LinearGradient(s.hidden, s.qkv, accumulate, model_.qkv_bias);
    LinearGradient(s.hidden, s.qkv - s.attention, accumulate, model_.qkv_bias);
    LinearGradient(s.hidden, s.attention, accumulate, model_.qkv_bias);
  }
  void QkvInputGradient() {
    if (s.kv_replicas == 1) return ReducedProduct(s.qkv, true);
    ReducedProduct({s.qkv - s.attention, s.attention}, true);
  }
  // The norms of q and k: of each head, or of all heads, for which the tensor group sums over a token's
  // columns.
  void QkNorm(OpKind of_heads, OpKind sums, OpKind of_all, bool accumulate) {
    if (model_.qk_norm == autocfg::QkNorm::kNone) return;
    const std::array<std::int64_t, 5> dims = {s.tokens, s.heads, s.head_dim, s.kv_heads};
    if (model_.qk_norm == autocfg::QkNorm::kFull) {
      Add(sums, types.compute, dims);
      TensorReduce(OpKind::kAllReduceSum, types.statistics, 2 * s.tokens);
    }
    Add(model_.qk_norm == autocfg::QkNorm::kFull ? of_all : of_heads, types.compute, dims);
    ops.back().accumulate = accumulate;
  }
  void QkNormForward() {
    QkNorm(OpKind::kHeadNormForward, OpKind::kQkSquares, OpKind::kQkNormForward, false);
  }
  void QkNormBackward(bool accumulate) {
    QkNorm(OpKind::kHeadNormBackward, OpKind::kQkProducts, OpKind::kQkNormBackward, accumulate);
  }
  void Rope() {
    if (kind_.rotates && model_.position == Position::kRope)
      Add(OpKind::kRope, types.compute, {s.tokens, s.heads + s.kv_heads, s.head_dim, RotaryDims(model_)});
  }
  void Attention(OpKind fused, OpKind unfused) {
    const std::int64_t chunk = kind_.chunk == 0 ? s.seq_len : std::min(kind_.chunk, s.seq_len);
    Add(IsUnfused(plan_) ? unfused : fused, types.compute,
        {s.micro_batch * (s.seq_len / chunk), chunk, s.heads, s.head_dim, s.kv_heads});
    ops.back().alibi = model_.position == Position::kAlibi;
    ops.back().softcap = model_.attention_softcap != 0;
    ops.back().window = kind_.window < s.seq_len ? kind_.window : 0;
  }
  void AttentionForward() { Attention(OpKind::kAttentionForward, OpKind::kUnfusedAttentionForward); }
  void AttentionBackward() { Attention(OpKind::kAttentionBackward, OpKind::kUnfusedAttentionBackward); }

  void Communicate(OpKind kind, DType type, CommGroup group, std::int64_t group_size, std::int64_t n) {
    ops.push_back(CommunicationOp(kind, type, group, group_size, n));
  }
  // ar(x): only if there is a tensor group.
  void TensorReduce(OpKind kind, DType type, std::int64_t n) {
    if (plan_.tp > 1) Communicate(kind, type, CommGroup::kTensor, plan_.tp, n);
  }
  // reduce(x), gather(x)
  void ReduceHidden(std::int64_t tokens) {
    TensorReduce(SplitsSequence(plan_) ? OpKind::kReduceScatter : OpKind::kAllReduceSum, types.compute,
                 tokens * s.hidden);
  }
  void ReduceHidden() { ReduceHidden(s.tokens); }
  // The sum of products [T, k] x [k, H], or with a transposed second factor, and reduce() of it, in chunks.
  void ReducedProduct(std::initializer_list<std::int64_t> inner, bool tb) {
    const std::int64_t chunks = TensorChunks(plan_);
    const auto multiply = [&](std::int64_t rows) {
      bool accumulate = false;
      for (const std::int64_t k : inner)
        Matmul(rows, s.hidden, k, false, tb, std::exchange(accumulate, true));
    };
    if (chunks == 1) {
      multiply(s.tokens);
      return ReduceHidden();
    }
    const std::int64_t pieces =
        SplitsSequence(plan_) ? plan_.tp : 1;  // of a chunk: one in the rows of each rank
    for (std::int64_t i = 0; i < chunks; ++i) {
      const std::int64_t rows = ChunkOfRows(s.rows, chunks, i).Count();
      if (rows == 0) continue;
      for (std::int64_t piece = 0; piece < pieces; ++piece) multiply(rows);
      ReduceHidden(pieces * rows);
    }
  }
  void ReducedProduct(std::int64_t k, bool tb) { ReducedProduct({k}, tb); }
  void GatherHidden() {
    if (SplitsSequence(plan_)) TensorReduce(OpKind::kAllGather, types.compute, s.tokens * s.hidden);
  }
  // The norm before a block, forward and backward. Without it, what the block reads is the residual stream.
  void PreNormForward() {
    if (NormsInputs(model_.norm_placement)) NormForward();
  }
  void PreNormBackward(bool accumulate) {
    if (!NormsInputs(model_.norm_placement)) return OwnRows(OpKind::kResidualAdd);
    NormBackward(accumulate);
  }
  // Whether the output of a block passes through ops of its own before the residual is added.
  bool HasOutputOps() const { return NormsOutputs(model_.norm_placement) || model_.residual_scale != 1; }
  void OutputOpsForward() {
    if (NormsOutputs(model_.norm_placement)) NormForward();
    if (model_.residual_scale != 1) OwnRows(OpKind::kScale);
    OwnRows(OpKind::kResidualAdd);
  }
  // Of the gradient of the residual stream, which stays as it is, the gradient of the block's product.
  void OutputOpsBackward(bool accumulate) {
    if (model_.residual_scale != 1) OwnRows(OpKind::kScale);
    if (NormsOutputs(model_.norm_placement)) NormBackward(accumulate);
  }
  // Projects `width` columns to a block's output, without the residual.
  void BlockProduct(std::int64_t width, bool bias) {
    if (plan_.tp == 1)
      return Matmul(bias ? Epilogue::kBias : Epilogue::kNone, s.tokens, s.hidden, width, bias);
    ReducedProduct(width, false);
    if (bias) OwnRows(OpKind::kPositionForward);  // a bias is a table of one position
  }
  // Projects `width` columns back into the residual stream.
  void RowParallelForward(std::int64_t width, bool bias) {
    if (HasOutputOps()) {
      BlockProduct(width, bias);
      return OutputOpsForward();
    }
    if (plan_.tp == 1) return Matmul(Epilogue::kResidual, s.tokens, s.hidden, width, bias);
    ReducedProduct(width, false);
    OwnRows(bias ? OpKind::kBiasResidual : OpKind::kResidualAdd);
  }
  // Whether a weight's gradient is added to that of earlier microbatches where it is computed.
  bool Adds(bool accumulate) const { return accumulate && !ShardsGradients(plan_); }

  void Message(OpKind kind) {
    Communicate(kind, types.compute, CommGroup::kPipeline, SizeOf(plan_, Axis::kPipeline),
                ScattersMessages(plan_) ? s.message / plan_.tp : s.message);
  }
  // The parts of a message that has arrived.
  void GatherMessage() {
    if (ScattersMessages(plan_)) TensorReduce(OpKind::kAllGather, types.compute, s.message);
  }

  // What full recomputation repeats of a layer's forward. The backward of a norm on the layer's output needs
  // what it reads, and its statistics.
  void RecomputeLayer() {
    LayerForwardHead();
    if (!NormsOutputs(model_.norm_placement)) return;
    BlockProduct(s.ffn, model_.mlp_bias);
    NormForward();
  }
  // A layer's forward up to the activation.
  void LayerForwardHead() {
    PreNormForward();
    GatherHidden();
    QkvForward();
    QkNormForward();
    Rope();
    AttentionForward();
    RowParallelForward(s.attention, model_.attention_out_bias);
    if (!model_.shared_norm) PreNormForward();
    GatherHidden();
    ActivationForward();
  }

  const LocalDims s;
  const Precision types;
  std::vector<OpDesc> ops;

 private:
  const ModelSpec& model_;
  const ParallelPlan& plan_;
  const LayerKind kind_;
};

}  // namespace

std::vector<OpDesc> ArrivalOps(const RunView& run) {
  OpLister l(run);
  l.GatherMessage();
  return std::move(l.ops);
}

LayerKind LayerKindOf(const LayerRun& kind, std::int64_t seq_len) {
  return {.rotates = kind.rotary,
          .window = kind.window < seq_len ? kind.window : 0,
          .chunk = kind.chunk < seq_len ? kind.chunk : 0};
}

LayerKind LayerKindOf(const RunView& run, std::int64_t layer) {
  return LayerKindOf(KindOf(run.model, layer), run.workload.seq_len);
}

std::vector<OpDesc> LayerForwardOps(const RunView& run, const LayerKind& kind) {
  OpLister l(run, kind);
  l.LayerForwardHead();
  l.RowParallelForward(l.s.ffn, run.model.mlp_bias);
  return std::move(l.ops);
}

std::vector<OpDesc> LayerRecomputeOps(const RunView& run, const LayerKind& kind) {
  OpLister l(run, kind);
  if (run.plan.recompute == Recompute::kFull) l.RecomputeLayer();
  if (RecomputesScores(run.plan)) l.AttentionForward();
  return std::move(l.ops);
}

std::vector<OpDesc> LayerBackwardOps(const RunView& run, bool accumulate, const LayerKind& kind) {
  OpLister l(run, kind);
  const LocalDims& s = l.s;
  l.OutputOpsBackward(accumulate);
  l.GatherHidden();
  l.LinearGradient(s.ffn, s.hidden, accumulate, run.model.mlp_bias);
  l.ActivationBackward();
  const auto attention_out = [&] {
    if (!run.model.parallel_residual) l.OutputOpsBackward(accumulate);  // else that of the other block
    l.GatherHidden();
    l.LinearGradient(s.attention, s.hidden, accumulate, run.model.attention_out_bias);
    l.Matmul(s.tokens, s.attention, s.hidden, false, true);
  };
  if (run.model.parallel_residual) attention_out();
  l.GatherHidden();
  l.LinearGradient(s.hidden, s.fc, accumulate, run.model.mlp_bias);
  l.ReducedProduct(s.fc, true);
  l.PreNormBackward(accumulate);
  if (!run.model.parallel_residual) attention_out();
  l.AttentionBackward();
  l.Rope();
  l.QkNormBackward(accumulate);
  l.TakeQkvParts();
  l.QkvWeightGradient(accumulate);
  l.QkvInputGradient();
  l.PreNormBackward(accumulate || run.model.shared_norm);
  return std::move(l.ops);
}

std::vector<OpDesc> LayerInputGradientOps(const RunView& run, bool accumulate, const LayerKind& kind) {
  OpLister l(run, kind);
  const LocalDims& s = l.s;
  l.OutputOpsBackward(accumulate);
  l.GatherHidden();
  l.ActivationBackward();
  const auto attention_out = [&] {
    if (!run.model.parallel_residual) l.OutputOpsBackward(accumulate);
    l.GatherHidden();
    l.Matmul(s.tokens, s.attention, s.hidden, false, true);
  };
  if (run.model.parallel_residual) attention_out();
  // With norms on outputs, nothing later needs the gradient of the stream, to which the norms add in place.
  const bool in_place = NormsOutputs(run.model.norm_placement);
  l.ReducedProduct(s.fc, true);
  l.PreNormBackward(accumulate);
  if (!run.model.parallel_residual) {
    if (!in_place) l.OwnRows(OpKind::kResidualAdd);
    attention_out();
  }
  l.AttentionBackward();
  l.Rope();
  l.QkNormBackward(accumulate);
  l.TakeQkvParts();
  l.QkvInputGradient();
  l.PreNormBackward(accumulate || run.model.shared_norm);
  if (!in_place) l.OwnRows(OpKind::kResidualAdd);
  return std::move(l.ops);
}

std::vector<OpDesc> LayerWeightGradientOps(const RunView& run, bool accumulate) {
  OpLister l(run);
  const LocalDims& s = l.s;
  // The gradient of a block's product is kept only where it is that of a norm. Else it is scaled again.
  const auto scale = [&] {
    if (run.model.residual_scale != 1 && !NormsOutputs(run.model.norm_placement)) l.OwnRows(OpKind::kScale);
  };
  scale();
  l.GatherHidden();
  l.LinearGradient(s.ffn, s.hidden, accumulate, run.model.mlp_bias);
  l.GatherHidden();
  l.LinearGradient(s.hidden, s.fc, accumulate, run.model.mlp_bias);
  if (!run.model.parallel_residual) scale();
  l.GatherHidden();
  l.LinearGradient(s.attention, s.hidden, accumulate, run.model.attention_out_bias);
  l.TakeQkvParts();
  l.QkvWeightGradient(accumulate);
  return std::move(l.ops);
}

std::vector<OpDesc> EmbeddingForwardOps(const RunView& run) {
  OpLister l(run);
  l.Add(OpKind::kEmbeddingForward, l.types.compute, {l.s.tokens, l.s.hidden, l.s.vocab});
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
  l.Rows(OpKind::kPositionBackward, l.s.hidden);
  l.ops.back().accumulate = l.Adds(accumulate);
  return std::move(l.ops);
}

std::vector<OpDesc> EmbeddingBackwardOps(const RunView& run, bool accumulate) {
  OpLister l(run);
  if (run.model.position != Position::kLearned) {
    if (run.model.embedding_norm) l.NormBackward(accumulate);
    l.GatherHidden();
  }
  if (run.model.embedding_scale != 1) l.Rows(OpKind::kScale, l.s.hidden);
  l.Add(OpKind::kEmbeddingBackward, l.types.compute, {l.s.tokens, l.s.hidden, l.s.vocab});
  l.ops.back().accumulate = l.Adds(accumulate) || EmbeddingAddsToHead(run.model, run.plan);
  return std::move(l.ops);
}

std::vector<OpDesc> HeadForwardOps(const RunView& run) {
  OpLister l(run);
  const LocalDims& s = l.s;
  l.NormForward();
  if (run.model.logit_scale != 1) l.OwnRows(OpKind::kScale);
  l.GatherHidden();
  l.Matmul(s.tokens, s.vocab, s.hidden, false, true);
  if (run.plan.tp == 1) {
    l.Logits(OpKind::kCrossEntropy);
    return std::move(l.ops);
  }
  l.Logits(OpKind::kCrossEntropyForward);
  l.TensorReduce(OpKind::kAllReduceMax, l.types.statistics, s.tokens);
  l.Add(OpKind::kCrossEntropyRescale, l.types.statistics, {s.tokens});
  l.TensorReduce(OpKind::kAllReduceSum, l.types.statistics, 2 * s.tokens);
  l.Add(OpKind::kCrossEntropyLoss, l.types.statistics, {s.tokens});
  return std::move(l.ops);
}

std::vector<OpDesc> HeadBackwardOps(const RunView& run, bool accumulate) {
  OpLister l(run);
  const LocalDims& s = l.s;
  if (run.plan.tp > 1) l.Logits(OpKind::kCrossEntropyBackward);
  l.GatherHidden();
  l.WeightGradient(s.vocab, s.hidden, accumulate);
  l.ReducedProduct(s.vocab, false);
  if (run.model.logit_scale != 1) l.OwnRows(OpKind::kScale);
  l.NormBackward(accumulate);
  return std::move(l.ops);
}

std::vector<OpDesc> MessageOps(const RunView& run, OpKind kind) {
  OpLister l(run);
  l.Message(kind);
  return std::move(l.ops);
}

}  // namespace autocfg
