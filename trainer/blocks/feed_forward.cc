#include "trainer/blocks/feed_forward.h"

#include <utility>

namespace autocfg::trainer {

FeedForwardBlock::FeedForwardBlock(const RankShape& shape, MemoryLayout& layout, std::int64_t layer)
    : ResidualBlock(shape, layout, layer, BlockKind::kFeedForward),
      fc_{layout.Find(ParameterKind::kFcWeight, layer), layout.Find(ParameterKind::kFcBias, layer)} {}

void FeedForwardBlock::FcForward(const Execution& run, const Tensor& x,
                                 const FeedForwardActivations& a) const {
  ColumnParallelActivationForward(run, shape_.model.activation, fc_, Input(x, a), workspace_.whole, a.fc,
                                  a.act);
}

void FeedForwardBlock::Forward(const Execution& run, const Tensor& x, const FeedForwardActivations& a,
                               const Tensor& residual, const Tensor& y) const {
  InputNormForward(run, x, a);
  FcForward(run, x, a);
  OutputForward(run, a.act, a, residual, y);
}

bool FeedForwardBlock::recomputes_parts() const {
  return recomputes_norm() || RecomputesPart(shape_.plan, LayerPart::kMlp) ||
         RecomputesPart(shape_.plan, LayerPart::kActivation);
}

void FeedForwardBlock::Recompute(const Execution& run, const Tensor& x, const FeedForwardActivations& a,
                                 bool all) const {
  if (all || recomputes_norm()) InputNormForward(run, x, a);
  if (all || RecomputesPart(shape_.plan, LayerPart::kMlp)) {
    FcForward(run, x, a);
  } else if (RecomputesPart(shape_.plan, LayerPart::kActivation)) {
    // fc has its bias.
    run.ops.ActivationForward(shape_.model.activation, a.fc, {}, a.act, run.stream);
  }
  if (all) RecomputeOutput(run, a.act, a);
}

void FeedForwardBlock::OutputBackward(const Execution& run, const FeedForwardActivations& a,
                                      const Tensor& grad, Gradients gradients, bool accumulate) const {
  const Workspace& ws = workspace_;
  RowParallelActivationBackward(run, shape_.model.activation, projection_, a.act, grad, ws.whole, a.fc,
                                ws.grad_ffn, ws.grad_fc, gradients, accumulate);
}

void FeedForwardBlock::InputBackward(const Execution& run, const Tensor& x, FeedForwardActivations& a,
                                     const Tensor& dx, bool add_to_dx, Gradients gradients,
                                     bool accumulate) const {
  Workspace& ws = workspace_;
  const Tensor& grad_fc = OfInputs(gradients) ? ws.grad_fc : a.fc;
  const Tensor grad = ColumnParallelBackward(run, fc_, Input(x, a), grad_fc, ws.whole, gradients, accumulate);
  if (OfInputs(gradients)) InputNormBackward(run, grad, x, a, dx, add_to_dx, accumulate);
  if (OfWeights(gradients)) return;
  KeepOutputGradient(a);
  std::swap(a.fc, ws.grad_fc);
  if (!IsGated(shape_.model.activation)) ws.grad_ffn = ws.grad_fc;
}

}  // namespace autocfg::trainer
