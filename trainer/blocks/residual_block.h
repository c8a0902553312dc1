// What the two blocks of a layer, attention and feed-forward, have in common: how they leave the residual
// stream, by a norm on their input, and how they return to it, by a projection whose result is normed, scaled
// and added. Holds views only; one rank, one thread.
//
// The backward of a block has two halves, which a layer orders: OutputBackward, through the projection, and
// InputBackward, the rest down to the stream. Where backwards are split, both run again for the gradients of
// weights. What these are computed from must outlive the workspace's next use. So InputBackward of inputs
// exchanges activations that have been read for tensors of the workspace, of the same shapes, which hold the
// gradients with respect to them.
#pragma once

#include <cstdint>

#include "trainer/blocks/norm.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"
#include "trainer/parallel/parallel_linear.h"

namespace autocfg::trainer {

enum class BlockKind : std::uint8_t { kAttention, kFeedForward };

class ResidualBlock {
 public:
  // Returns the gradient with respect to the result of the projection, given `grad`, that of the residual
  // stream: `grad` itself, or ws.grad_block, if outputs are normed or scaled. Computes the gradients of the
  // norm too; adds to them if `accumulate`. With norms on outputs and Gradients::kWeights, returns what
  // KeepOutputGradient left in a.out.
  Tensor OutputGradient(const Execution& run, const BlockActivations& a, const Tensor& grad,
                        Gradients gradients, bool accumulate) const;

 protected:
  // `layer` is a layer of the model that the rank holds. `shape` and `layout` (resolved) must outlive the
  // result.
  ResidualBlock(const RankShape& shape, MemoryLayout& layout, std::int64_t layer, BlockKind kind);

  // Computes the norm of the input x, if the block has one of its own.
  void InputNormForward(const Execution& run, const Tensor& x, const BlockActivations& a) const;
  bool recomputes_norm() const { return norms_input_ && RecomputesPart(shape_.plan, LayerPart::kNorm); }
  // What the block reads: the result of its norm, or of the shared one; x with norms on outputs alone.
  const Tensor& Input(const Tensor& x, const BlockActivations& a) const {
    return NormsInputs(shape_.model.norm_placement) ? a.ln : x;
  }
  // dx (= or +=) the gradient with respect to x, given that with respect to Input. Without norms on inputs it
  // always adds.
  void InputNormBackward(const Execution& run, const Tensor& grad, const Tensor& x, const BlockActivations& a,
                         const Tensor& dx, bool add_to_dx, bool accumulate) const;

  // Adds the output to the residual stream: y = inner W + b, normed and scaled, plus `residual`.
  void OutputForward(const Execution& run, const Tensor& inner, const BlockActivations& a,
                     const Tensor& residual, const Tensor& y) const;
  // Recomputes what OutputForward stored in `a`.
  void RecomputeOutput(const Execution& run, const Tensor& inner, const BlockActivations& a) const;
  // Exchanges OutputGradient for a.out, if outputs are normed.
  void KeepOutputGradient(BlockActivations& a) const;

  const RankShape& shape_;
  Workspace& workspace_;
  LinearParameters projection_;

 private:
  bool norms_output() const { return NormsOutputs(shape_.model.norm_placement); }

  bool norms_input_;  // by a norm of its own
  // The norm is shared, and the other block, whose backward comes first, wrote the gradients of its
  // parameters.
  bool adds_to_norm_;
  NormLayer norm_, out_norm_;
};

}  // namespace autocfg::trainer
