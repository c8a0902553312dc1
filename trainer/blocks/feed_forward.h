// The feed-forward block of a layer: norm, column-parallel product, activation, projection. Holds views only;
// one rank, one thread.
#pragma once

#include "trainer/blocks/residual_block.h"

namespace autocfg::trainer {

class FeedForwardBlock : public ResidualBlock {
 public:
  // As ResidualBlock.
  FeedForwardBlock(const RankShape& shape, MemoryLayout& layout, std::int64_t layer);

  // Computes y[R,H] = the output for x[R,H], plus `residual`. Stores in `a` what the backward needs.
  void Forward(const Execution& run, const Tensor& x, const FeedForwardActivations& a, const Tensor& residual,
               const Tensor& y) const;

  // Recomputes all that Forward stored, or the parts that recompute=selective names.
  void Recompute(const Execution& run, const Tensor& x, const FeedForwardActivations& a, bool all) const;
  bool recomputes_parts() const;

  // The halves of the backward. The first one computes ws.grad_fc from `grad`, which is OutputGradient. The
  // second one sets dx to the gradient with respect to x, or adds it. Gradients::kInputs: it exchanges a.fc
  // and, with norms on outputs, a.out. Both compute gradients of parameters; they add to them if
  // `accumulate`.
  void OutputBackward(const Execution& run, const FeedForwardActivations& a, const Tensor& grad,
                      Gradients gradients, bool accumulate) const;
  void InputBackward(const Execution& run, const Tensor& x, FeedForwardActivations& a, const Tensor& dx,
                     bool add_to_dx, Gradients gradients, bool accumulate) const;

 private:
  void FcForward(const Execution& run, const Tensor& x, const FeedForwardActivations& a) const;

  LinearParameters fc_;
};

}  // namespace autocfg::trainer
