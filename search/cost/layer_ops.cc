#include "search/cost/layer_ops.h"

#include "search/cost/stage_shapes.h"
#include "search/plan/legality.h"

namespace autocfg {
namespace {

// Appends ops in the words of docs/engine.md.
class OpLister {
 public:
  OpLister(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan)
      : s(ShapesOf(model, workload, plan)),
        max_seq_len(model.max_seq_len),
        tp(static_cast<std::int32_t>(plan.tp)),
        types(workload.precision) {}

  void Matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool ta = false, bool tb = false,
              bool accumulate = false) {
    OpDesc op{.kind = OpKind::kMatmul, .dtype = types.compute, .dims = {m, n, k, 0}};
    op.transpose_a = ta;
    op.transpose_b = tb;
    op.accumulate = accumulate;
    ops.push_back(op);
  }
  // dW[rows of dW, columns] += x^T dy over T tokens.
  void WeightGradient(std::int64_t rows, std::int64_t columns) {
    Matmul(rows, columns, s.tokens, true, false, true);
  }
  void Rows(OpKind kind, std::int64_t width) { Add(kind, types.compute, {s.tokens, width, 0, 0}); }
  void Attention(OpKind kind) { Add(kind, types.compute, {s.batch, s.seq, s.heads, s.head_dim, s.heads}); }
  void Add(OpKind kind, DType type, std::array<std::int64_t, 5> dims) {
    ops.push_back(OpDesc{.kind = kind, .dtype = type, .dims = dims});
  }
  void Communicate(OpKind kind, DType type, CommGroup group, std::int64_t group_size, std::int64_t n) {
    OpDesc op{.kind = kind, .dtype = type, .dims = {n, 0, 0, 0}};
    op.group = group;
    op.group_size = static_cast<std::int32_t>(group_size);
    ops.push_back(op);
  }
  // ar(x): only where there is a tensor group.
  void TensorReduce(OpKind kind, DType type, std::int64_t n) {
    if (tp > 1) Communicate(kind, type, CommGroup::kTensor, tp, n);
  }
  void ReduceHidden() { TensorReduce(OpKind::kAllReduceSum, types.compute, s.tokens * s.hidden); }

  // A layer's forward up to bias_gelu, which is what full recomputation runs again.
  void LayerForwardHead() {
    Rows(OpKind::kLayerNormForward, s.hidden);
    Matmul(s.tokens, 3 * s.attention, s.hidden);
    Rows(OpKind::kBiasAdd, 3 * s.attention);
    Attention(OpKind::kAttentionForward);
    Matmul(s.tokens, s.hidden, s.attention);
    ReduceHidden();
    Rows(OpKind::kBiasResidual, s.hidden);
    Rows(OpKind::kLayerNormForward, s.hidden);
    Matmul(s.tokens, s.ffn, s.hidden);
    Rows(OpKind::kActivationForward, s.ffn);
    ops.back().bias = true;
  }

  const StepShapes s;
  const std::int64_t max_seq_len;
  const std::int32_t tp;
  const Precision types;
  std::vector<OpDesc> ops;
};

void Append(std::vector<OpDesc>& to, const std::vector<OpDesc>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

std::vector<OpDesc> LayerForwardOps(const ModelSpec& model, const Workload& workload,
                                    const ParallelPlan& plan) {
  OpLister l(model, workload, plan);
  l.LayerForwardHead();
  l.Matmul(l.s.tokens, l.s.hidden, l.s.ffn);
  l.ReduceHidden();
  l.Rows(OpKind::kBiasResidual, l.s.hidden);
  return std::move(l.ops);
}

std::vector<OpDesc> LayerRecomputeOps(const ModelSpec& model, const Workload& workload,
                                      const ParallelPlan& plan) {
  OpLister l(model, workload, plan);
  if (plan.recompute == Recompute::kFull) l.LayerForwardHead();
  return std::move(l.ops);
}

std::vector<OpDesc> LayerBackwardOps(const ModelSpec& model, const Workload& workload,
                                     const ParallelPlan& plan) {
  OpLister l(model, workload, plan);
  const StepShapes& s = l.s;
  l.Rows(OpKind::kBiasGradient, s.hidden);
  l.WeightGradient(s.ffn, s.hidden);
  l.Matmul(s.tokens, s.ffn, s.hidden, false, true);
  l.Rows(OpKind::kActivationBackward, s.ffn);
  l.Rows(OpKind::kBiasGradient, s.ffn);
  l.WeightGradient(s.hidden, s.ffn);
  l.Matmul(s.tokens, s.hidden, s.ffn, false, true);
  l.ReduceHidden();
  l.Rows(OpKind::kLayerNormBackward, s.hidden);
  l.Rows(OpKind::kBiasGradient, s.hidden);
  l.WeightGradient(s.attention, s.hidden);
  l.Matmul(s.tokens, s.attention, s.hidden, false, true);
  l.Attention(OpKind::kAttentionBackward);
  l.Rows(OpKind::kBiasGradient, 3 * s.attention);
  l.WeightGradient(s.hidden, 3 * s.attention);
  l.Matmul(s.tokens, s.hidden, 3 * s.attention, false, true);
  l.ReduceHidden();
  l.Rows(OpKind::kLayerNormBackward, s.hidden);
  return std::move(l.ops);
}

std::vector<OpDesc> EmbeddingForwardOps(const ModelSpec& model, const Workload& workload,
                                        const ParallelPlan& plan) {
  OpLister l(model, workload, plan);
  l.Add(OpKind::kEmbeddingForward, l.types.compute, {l.s.tokens, l.s.hidden, l.s.vocab, 0});
  l.ReduceHidden();
  l.Rows(OpKind::kPositionForward, l.s.hidden);
  return std::move(l.ops);
}

std::vector<OpDesc> EmbeddingBackwardOps(const ModelSpec& model, const Workload& workload,
                                         const ParallelPlan& plan) {
  OpLister l(model, workload, plan);
  l.Rows(OpKind::kPositionBackward, l.s.hidden);
  l.Add(OpKind::kEmbeddingBackward, l.types.compute, {l.s.tokens, l.s.hidden, l.s.vocab, 0});
  return std::move(l.ops);
}

std::vector<OpDesc> HeadForwardOps(const ModelSpec& model, const Workload& workload,
                                   const ParallelPlan& plan) {
  OpLister l(model, workload, plan);
  const StepShapes& s = l.s;
  l.Rows(OpKind::kLayerNormForward, s.hidden);
  l.Matmul(s.tokens, s.vocab, s.hidden, false, true);
  l.Rows(OpKind::kCrossEntropyMax, s.vocab);
  l.TensorReduce(OpKind::kAllReduceMax, l.types.statistics, s.tokens);
  l.Rows(OpKind::kCrossEntropySum, s.vocab);
  l.TensorReduce(OpKind::kAllReduceSum, l.types.statistics, 2 * s.tokens);
  l.Add(OpKind::kCrossEntropyLoss, l.types.statistics, {s.tokens, 0, 0, 0});
  return std::move(l.ops);
}

std::vector<OpDesc> HeadBackwardOps(const ModelSpec& model, const Workload& workload,
                                    const ParallelPlan& plan) {
  OpLister l(model, workload, plan);
  const StepShapes& s = l.s;
  l.Rows(OpKind::kCrossEntropyBackward, s.vocab);
  l.Matmul(s.tokens, s.hidden, s.vocab);
  l.WeightGradient(s.vocab, s.hidden);
  l.ReduceHidden();
  l.Rows(OpKind::kLayerNormBackward, s.hidden);
  return std::move(l.ops);
}

std::vector<OpDesc> ParameterOps(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                                 std::int64_t pipeline_rank, OpKind kind) {
  OpLister l(model, workload, plan);
  const bool first = pipeline_rank == 0, last = pipeline_rank == plan.pp - 1;
  const bool norm = kind == OpKind::kSumOfSquares;
  const DType type = norm ? l.types.gradients : l.types.parameters;
  const std::int64_t layers = StageLayers(model, plan, pipeline_rank).count;
  // The last stage's copy of the tied table is updated, but the first stage's counts in the norm.
  if (first || (last && !norm)) l.Add(kind, type, {l.s.vocab * l.s.hidden, 0, 0, 0});
  if (first) l.Add(kind, type, {l.max_seq_len * l.s.hidden, 0, 0, 0});
  const auto layer = LayerParameters(l.s);
  for (std::int64_t i = 0; i < layers; ++i) {
    for (const ParameterShape& p : layer) l.Add(kind, type, {p.elements, 0, 0, 0});
  }
  for (int i = 0; last && i < 2; ++i) l.Add(kind, type, {l.s.hidden, 0, 0, 0});
  return std::move(l.ops);
}

std::vector<OpDesc> ActionOps(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                              std::int64_t pipeline_rank, const Action& action) {
  OpLister l(model, workload, plan);
  const StepShapes& s = l.s;
  const bool first = pipeline_rank == 0, last = pipeline_rank == plan.pp - 1;
  const std::int64_t layers = StageLayers(model, plan, pipeline_rank).count;
  const std::int64_t gradient_elements =
      ParameterRegionBytes(s, model, first, last, layers, l.types.gradients) / SizeOf(l.types.gradients);
  switch (action.kind) {
    case ActionKind::kZeroGradients:
      l.Add(OpKind::kFill, l.types.gradients, {gradient_elements, 0, 0, 0});
      l.Add(OpKind::kFill, DType::kF64, {2, 0, 0, 0});
      break;
    case ActionKind::kForward: {
      if (first) Append(l.ops, EmbeddingForwardOps(model, workload, plan));
      const std::vector<OpDesc> layer = LayerForwardOps(model, workload, plan);
      for (std::int64_t i = 0; i < layers; ++i) Append(l.ops, layer);
      if (last) Append(l.ops, HeadForwardOps(model, workload, plan));
      break;
    }
    case ActionKind::kBackward: {
      if (last) Append(l.ops, HeadBackwardOps(model, workload, plan));
      std::vector<OpDesc> layer = LayerRecomputeOps(model, workload, plan);
      Append(layer, LayerBackwardOps(model, workload, plan));
      for (std::int64_t i = 0; i < layers; ++i) Append(l.ops, layer);
      if (first) Append(l.ops, EmbeddingBackwardOps(model, workload, plan));
      break;
    }
    case ActionKind::kSendActivation:
    case ActionKind::kSendGradient:
      l.Communicate(OpKind::kSend, l.types.compute, CommGroup::kPipeline, plan.pp, s.tokens * s.hidden);
      break;
    case ActionKind::kRecvActivation:
    case ActionKind::kRecvGradient:
      l.Communicate(OpKind::kRecv, l.types.compute, CommGroup::kPipeline, plan.pp, s.tokens * s.hidden);
      break;
    case ActionKind::kReduceGradients:
      if (plan.dp > 1) {
        l.Communicate(OpKind::kAllReduceSum, l.types.gradients, CommGroup::kData, plan.dp, gradient_elements);
      }
      break;
    case ActionKind::kSumTiedEmbedding:
      if (plan.pp > 1 && model.tied_embeddings && (first || last)) {
        l.Communicate(OpKind::kAllReduceSum, l.types.gradients, CommGroup::kEmbedding, 2, s.vocab * s.hidden);
      }
      break;
    case ActionKind::kReduceScalars:
      l.ops = ParameterOps(model, workload, plan, pipeline_rank, OpKind::kSumOfSquares);
      if (RankCount(plan) > 1) {
        l.Communicate(OpKind::kAllReduceSum, DType::kF64, CommGroup::kWorld, RankCount(plan), 2);
      }
      break;
    case ActionKind::kOptimizer:
      l.ops = ParameterOps(model, workload, plan, pipeline_rank, OpKind::kAdamW);
      break;
  }
  return std::move(l.ops);
}

}  // namespace autocfg
