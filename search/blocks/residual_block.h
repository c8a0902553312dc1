// What attention and feed-forward have in common. A block reads the residual stream through a norm, and adds
// to it the product of a projection, normed or scaled if the model says so.
//
// A block lists its ops in pieces, which layer.h puts in order: the backward through the projection
// (OutputBackward) and the rest of the backward (InputBackward), since with a parallel residual both blocks
// pass the gradient of the same stream.
#pragma once

#include <cstdint>

#include "search/blocks/op_lister.h"
#include "search/shapes/gradients.h"

namespace autocfg {

class ResidualBlock {
 public:
  // Appends to `lister`. `inner`, `bias`: of the projection [inner, H].
  ResidualBlock(OpLister& lister, std::int64_t inner, bool bias) : l(lister), inner_(inner), bias_(bias) {}

  // Projects back into the residual stream, and adds to it.
  void OutputForward() const;

  // What full recomputation repeats of it: the backward of a norm on the output needs what it reads, and its
  // statistics.
  void RecomputeOutput() const;

 protected:
  // The norm before the block, forward and backward. Without it, the block reads the residual stream.
  void InputNormForward() const;
  void InputNormBackward(bool accumulate) const;

  // Goes from the gradient of the residual stream, which stays as it is, to that of the projection's product,
  // and computes the gradient of the projection. `own_stream`: else the other block has made the gradient.
  void ProjectionGradient(Gradients gradients, bool accumulate, bool own_stream) const;

  OpLister& l;

 private:
  // Projects to the block's output, without the residual.
  void Project() const;

  std::int64_t inner_;
  bool bias_;
};

}  // namespace autocfg
