#include "search/blocks/feed_forward.h"

namespace autocfg {

void FeedForwardBlock::Activation(OpKind kind, bool bias) const {
  l.Rows(kind, l.dims.ffn);
  l.ops.back().activation = l.model().activation;
  l.ops.back().bias = bias;
}

void FeedForwardBlock::NormForward() const {
  if (!l.model().shared_norm) InputNormForward();
}

void FeedForwardBlock::ProjectionForward() const {
  const LocalDims& s = l.dims;
  l.GatherHidden();
  if (!IsGated(l.model().activation))
    return l.Matmul(Epilogue::kActivation, s.tokens, s.fc, s.hidden, l.model().mlp_bias);
  l.Matmul(s.tokens, s.fc, s.hidden);
  Activation(OpKind::kActivationForward, l.model().mlp_bias);
}

void FeedForwardBlock::InnerForward() const {
  NormForward();
  ProjectionForward();
}

void FeedForwardBlock::RecomputeNorm() const {
  if (RecomputesPart(l.plan(), LayerPart::kNorm)) NormForward();
}

void FeedForwardBlock::RecomputeProjection() const {
  if (RecomputesPart(l.plan(), LayerPart::kMlp)) return ProjectionForward();
  // The projection that is stored includes the bias.
  if (RecomputesPart(l.plan(), LayerPart::kActivation)) Activation(OpKind::kActivationForward, false);
}

void FeedForwardBlock::OutputBackward(Gradients gradients, bool accumulate) const {
  const LocalDims& s = l.dims;
  ProjectionGradient(gradients, accumulate, /*own_stream=*/true);
  if (!OfInputs(gradients)) return;
  if (!IsGated(l.model().activation))
    return l.Matmul(Epilogue::kActivationGradient, s.tokens, s.ffn, s.hidden, false);
  l.Matmul(s.tokens, s.ffn, s.hidden, false, true);
  Activation(OpKind::kActivationBackward, false);
}

void FeedForwardBlock::InputBackward(Gradients gradients, bool accumulate) const {
  const LocalDims& s = l.dims;
  if (OfWeights(gradients)) {
    l.GatherHidden();
    l.LinearGradient(s.hidden, s.fc, accumulate, l.model().mlp_bias);
  }
  if (!OfInputs(gradients)) return;
  l.ReducedProduct(s.fc, true);
  InputNormBackward(accumulate);
}

BlockBytes FeedForwardBytes(const RunView& run, const TensorBytes& t) {
  const LocalDims& s = t.dims;
  const ModelSpec& model = run.model;
  const bool mlp = RecomputesPart(run.plan, LayerPart::kMlp);
  BlockBytes bytes;
  if (NormsInputs(model.norm_placement) && !model.shared_norm)
    bytes.Keep(t.Norm() + t.Hidden(), RecomputesPart(run.plan, LayerPart::kNorm));
  bytes.Keep(t.Rows(s.fc), mlp);
  bytes.Keep(t.Rows(s.ffn), mlp || RecomputesPart(run.plan, LayerPart::kActivation));
  if (NormsOutputs(model.norm_placement)) bytes.Keep(t.Norm() + t.Hidden());  // what the norm reads
  if (model.dropout > 0) bytes.Keep(t.HiddenMask());
  bytes.workspace = t.Rows(s.ffn) + (IsGated(model.activation) ? t.Rows(s.fc) : 0);
  return bytes;
}

}  // namespace autocfg
