#include "trainer/blocks/residual_block.h"

#include <utility>

namespace autocfg::trainer {
namespace {

using Kind = ParameterKind;

// The parameters of the ends of a block.
struct EndParameters {
  Kind norm, norm_bias, post_norm, post_norm_bias, projection, projection_bias;
};
constexpr EndParameters kOfAttention = {Kind::kNorm1Weight,        Kind::kNorm1Bias,
                                        Kind::kPostNorm1Weight,    Kind::kPostNorm1Bias,
                                        Kind::kAttentionOutWeight, Kind::kAttentionOutBias};
constexpr EndParameters kOfFeedForward = {Kind::kNorm2Weight,   Kind::kNorm2Bias,  Kind::kPostNorm2Weight,
                                          Kind::kPostNorm2Bias, Kind::kProjWeight, Kind::kProjBias};

// In a model whose norms are on outputs alone, these are ln_1 and ln_2.
EndParameters ParametersOf(const ModelSpec& model, BlockKind kind) {
  EndParameters p = kind == BlockKind::kAttention ? kOfAttention : kOfFeedForward;
  if (model.norm_placement == NormPlacement::kOutput) {
    p.post_norm = p.norm;
    p.post_norm_bias = p.norm_bias;
  }
  if (model.shared_norm) {
    p.norm = kOfAttention.norm;
    p.norm_bias = kOfAttention.norm_bias;
  }
  return p;
}

}  // namespace

ResidualBlock::ResidualBlock(const RankShape& shape, MemoryLayout& layout, std::int64_t layer, BlockKind kind)
    : shape_(shape),
      workspace_(layout.workspace()),
      projection_{layout.Find(ParametersOf(shape.model, kind).projection, layer),
                  layout.Find(ParametersOf(shape.model, kind).projection_bias, layer)},
      norms_input_(NormsInputs(shape.model.norm_placement) &&
                   (kind == BlockKind::kAttention || !shape.model.shared_norm)),
      adds_to_norm_(kind == BlockKind::kAttention && shape.model.shared_norm),
      norm_(shape, layout, ParametersOf(shape.model, kind).norm, ParametersOf(shape.model, kind).norm_bias,
            layer),
      out_norm_(shape, layout, ParametersOf(shape.model, kind).post_norm,
                ParametersOf(shape.model, kind).post_norm_bias, layer) {}

void ResidualBlock::InputNormForward(const Execution& run, const Tensor& x, const BlockActivations& a) const {
  if (norms_input_) norm_.Forward(run, x, a.ln, a.norm);
}

void ResidualBlock::InputNormBackward(const Execution& run, const Tensor& grad, const Tensor& x,
                                      const BlockActivations& a, const Tensor& dx, bool add_to_dx,
                                      bool accumulate) const {
  if (!NormsInputs(shape_.model.norm_placement)) return run.ops.ResidualAdd(dx, grad, run.stream);
  norm_.Backward(run, grad, x, a.norm, dx, add_to_dx, accumulate || adds_to_norm_);
}

void ResidualBlock::OutputForward(const Execution& run, const Tensor& inner, const BlockActivations& a,
                                  const Tensor& residual, const Tensor& y) const {
  const Tensor& whole = workspace_.whole;
  const double scale = shape_.model.residual_scale;
  if (!norms_output() && scale == 1) return RowParallelForward(run, projection_, inner, residual, whole, y);
  RowParallelForward(run, projection_, inner, whole, norms_output() ? a.out : y);
  if (norms_output()) out_norm_.Forward(run, a.out, y, a.out_norm);
  if (scale != 1) run.ops.Scale(y, scale, y, run.stream);
  run.ops.ResidualAdd(y, residual, run.stream);
}

void ResidualBlock::RecomputeOutput(const Execution& run, const Tensor& inner,
                                    const BlockActivations& a) const {
  if (!norms_output()) return;
  RowParallelForward(run, projection_, inner, workspace_.whole, a.out);
  // The backward needs the statistics alone: the result goes to a buffer that is written again before use.
  out_norm_.Forward(run, a.out, workspace_.grad_block, a.out_norm);
}

Tensor ResidualBlock::OutputGradient(const Execution& run, const BlockActivations& a, const Tensor& grad,
                                     Gradients gradients, bool accumulate) const {
  const double scale = shape_.model.residual_scale;
  if (!norms_output() && scale == 1) return grad;
  if (norms_output() && !OfInputs(gradients)) return a.out;
  const Tensor& block_grad = workspace_.grad_block;
  if (scale != 1) run.ops.Scale(grad, scale, block_grad, run.stream);
  if (norms_output()) {
    out_norm_.Backward(run, scale != 1 ? block_grad : grad, a.out, a.out_norm, block_grad,
                       /*add_to_dx=*/false, accumulate);
  }
  return block_grad;
}

void ResidualBlock::KeepOutputGradient(BlockActivations& a) const {
  if (norms_output()) std::swap(a.out, workspace_.grad_block);
}

}  // namespace autocfg::trainer
