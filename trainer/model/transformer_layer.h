// One transformer layer on one microbatch: pre-norm attention and feed-forward, split over the tensor group,
// of the parts that the model asks for. docs/engine.md names its ops in order. Views only; one rank, one
// thread.
#pragma once

#include "trainer/model/memory_layout.h"
#include "trainer/model/norm.h"
#include "trainer/parallel/execution.h"
#include "trainer/parallel/linear_parameters.h"

namespace autocfg {

class TransformerLayer {
 public:
  // `layer` is one of the model that the rank holds. `shape` and `layout` (resolved) must outlive the result.
  TransformerLayer(const RankShape& shape, const MemoryLayout& layout, std::int64_t layer);

  // a.x[T,H] -> out[T,H]; leaves in `a` what the backward needs.
  void Forward(const Execution& run, const LayerActivations& a, const Tensor& out) const;

  // Makes again, from a.x, what Forward left in `a`.
  void Recompute(const Execution& run, const LayerActivations& a) const;

  // grad[T,H], the gradient by the layer's output, becomes that by its input; parameter gradients accumulate.
  void Backward(const Execution& run, const LayerActivations& a, const Tensor& grad) const;

 private:
  // Turns q and k of qkv[T,Q] by their positions, or back; nothing in a model without rotary positions.
  void Rope(const Execution& run, const Tensor& qkv, bool inverse) const;
  Tensor BySequence(const Tensor& t) const;  // [B,S,...] of a tensor [T,...]

  const RankShape& shape_;
  const Workspace& workspace_;
  NormLayer norm_1_;
  LinearParameters c_attn_, attn_proj_;
  NormLayer norm_2_;
  LinearParameters c_fc_, mlp_proj_;
};

}  // namespace autocfg
