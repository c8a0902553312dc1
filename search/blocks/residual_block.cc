#include "search/blocks/residual_block.h"

namespace autocfg {

void ResidualBlock::Project() const {
  if (l.plan().tp == 1) return l.Linear(l.dims.hidden, inner_, bias_);
  l.ReducedProduct(inner_, false);
  if (bias_) l.OwnRows(OpKind::kPositionForward);  // a bias is a table of one position
}

void ResidualBlock::OutputForward() const {
  const bool norms = NormsOutputs(l.model().norm_placement), scales = l.model().residual_scale != 1;
  if (norms || scales) {
    Project();
    if (norms) l.NormForward();
    if (scales) l.OwnRows(OpKind::kScale);
    return l.OwnRows(OpKind::kResidualAdd);
  }
  if (l.plan().tp == 1) return l.Matmul(Epilogue::kResidual, l.dims.tokens, l.dims.hidden, inner_, bias_);
  l.ReducedProduct(inner_, false);
  l.OwnRows(bias_ ? OpKind::kBiasResidual : OpKind::kResidualAdd);
}

void ResidualBlock::RecomputeOutput() const {
  if (!NormsOutputs(l.model().norm_placement)) return;
  Project();
  l.NormForward();
}

void ResidualBlock::InputNormForward() const {
  if (NormsInputs(l.model().norm_placement)) l.NormForward();
}

void ResidualBlock::InputNormBackward(bool accumulate) const {
  if (!NormsInputs(l.model().norm_placement)) return l.OwnRows(OpKind::kResidualAdd);
  l.NormBackward(accumulate);
}

void ResidualBlock::ProjectionGradient(Gradients gradients, bool accumulate, bool own_stream) const {
  const bool norms = NormsOutputs(l.model().norm_placement), scales = l.model().residual_scale != 1;
  if (own_stream) {
    // A gradient that passed a norm is kept for the weights. Else it is scaled again.
    if (scales && (OfInputs(gradients) || !norms)) l.OwnRows(OpKind::kScale);
    if (norms && OfInputs(gradients)) l.NormBackward(accumulate);
  }
  l.GatherHidden();
  if (OfWeights(gradients)) l.LinearGradient(inner_, l.dims.hidden, accumulate, bias_);
}

}  // namespace autocfg
