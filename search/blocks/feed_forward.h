// The feed-forward block of a layer: norm, projection, activation, projection. Its ops, and its bytes.
#pragma once

#include "search/blocks/residual_block.h"
#include "search/blocks/tensor_bytes.h"

namespace autocfg {

class FeedForwardBlock : public ResidualBlock {
 public:
  explicit FeedForwardBlock(OpLister& lister)
      : ResidualBlock(lister, lister.dims.ffn, lister.model().mlp_bias) {}

  void InnerForward() const;  // up to the second projection
  // The parts that a plan computes again: the norm, and the projection with its activation, or the activation
  // alone.
  void RecomputeNorm() const;
  void RecomputeProjection() const;

  void OutputBackward(Gradients gradients, bool accumulate) const;
  void InputBackward(Gradients gradients, bool accumulate) const;

 private:
  void NormForward() const;
  void ProjectionForward() const;
  void Activation(OpKind kind, bool bias) const;
};

BlockBytes FeedForwardBytes(const RunView& run, const TensorBytes& bytes);

}  // namespace autocfg
