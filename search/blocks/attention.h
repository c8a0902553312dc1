// The attention of a layer: norm, projection to queries, keys and values, norms of these, rotary positions,
// attention, projection. Its ops, and its bytes.
#pragma once

#include "search/blocks/layer_kind.h"
#include "search/blocks/residual_block.h"
#include "search/blocks/tensor_bytes.h"

namespace autocfg {

class AttentionBlock : public ResidualBlock {
 public:
  // Both must outlive the block.
  AttentionBlock(OpLister& lister, const LayerKind& kind)
      : ResidualBlock(lister, lister.dims.attention, lister.model().attention_out_bias), kind_(kind) {}

  void InnerForward() const;  // up to the projection
  // The parts that a plan computes again: the norm, and attention itself.
  void RecomputeNorm() const;
  void RecomputeScores() const;

  void OutputBackward(Gradients gradients, bool accumulate, bool own_stream) const;
  void InputBackward(Gradients gradients, bool accumulate) const;

 private:
  void QkvForward() const;
  void QkvWeightGradient(bool accumulate) const;
  void QkNorm(OpKind of_heads, OpKind sums, OpKind of_all, bool accumulate) const;
  void Rope() const;
  void Attend(OpKind fused, OpKind unfused) const;

  const LayerKind& kind_;
};

BlockBytes AttentionBytes(const RunView& run, const TensorBytes& bytes);

}  // namespace autocfg
