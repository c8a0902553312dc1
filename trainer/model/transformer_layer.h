// One transformer layer of GPT-2 on one microbatch: pre-norm attention and MLP, split over the tensor group.
// docs/engine.md names its ops in order. Views only; one rank, one thread.
#pragma once

#include "trainer/model/memory_layout.h"
#include "trainer/parallel/execution.h"
#include "trainer/parallel/linear_parameters.h"

namespace autocfg {

struct LayerWeights {
  Weight ln_1_weight, ln_1_bias;
  LinearParameters c_attn, attn_proj;
  Weight ln_2_weight, ln_2_bias;
  LinearParameters c_fc, mlp_proj;
};

class TransformerLayer {
 public:
  // `local_layer` counts from the rank's first layer. `shape` and `layout` (resolved) must outlive the
  // result.
  TransformerLayer(const RankShape& shape, const MemoryLayout& layout, int local_layer);

  // a.x[T,H] -> out[T,H]; leaves in `a` what the backward needs.
  void Forward(const Execution& run, const LayerActivations& a, const Tensor& out) const;

  // Makes again, from a.x, what Forward left in `a`.
  void Recompute(const Execution& run, const LayerActivations& a) const;

  // grad[T,H], the gradient by the layer's output, becomes that by its input; parameter gradients accumulate.
  void Backward(const Execution& run, const LayerActivations& a, const Tensor& grad) const;

 private:
  const RankShape& shape_;
  const Workspace& workspace_;
  LayerWeights w_;
};

}  // namespace autocfg
