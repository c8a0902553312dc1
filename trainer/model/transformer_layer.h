// One transformer layer on one microbatch: attention and feed-forward, one after the other or side by side,
// split over the tensor group. docs/engine.md lists its ops in order. Holds views only; one rank, one thread.
#pragma once

#include "trainer/blocks/attention.h"
#include "trainer/blocks/feed_forward.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

class TransformerLayer {
 public:
  // `layer` is a layer of the model that the rank holds. `shape` and `layout` (resolved) must outlive the
  // result.
  TransformerLayer(const RankShape& shape, MemoryLayout& layout, std::int64_t layer);

  // The unit of all parameters but those of norms.
  std::size_t unit() const { return attention_.unit(); }

  // Computes out[R,H] from a.x[R,H]. Stores in `a` what the backward needs.
  void Forward(const Execution& run, const LayerActivations& a, const Tensor& out) const;

  // Recomputes, from a.x, all that Forward stored in `a`, or the parts that recompute=selective names.
  void Recompute(const Execution& run, const LayerActivations& a, bool all) const;
  bool recomputes_parts() const { return attention_.recomputes_parts() || feed_forward_.recomputes_parts(); }

  // Computes the gradients of parameters, or adds to them if `accumulate`, and input_grad[R,H], that with
  // respect to the layer's input. grad[R,H] is that with respect to its output. The two are the same tensor,
  // but for Gradients::kInputs in a model without norms on outputs.
  //
  // Where backwards are split, a call for the weights follows one for the inputs, with the same `grad`. What
  // it reads besides must outlive the workspace's next use. So the call for the inputs exchanges activations
  // that it has read for gradients: those of the blocks, and a.mid for that with respect to the output of
  // attention with its residual. With a parallel residual that is `grad`, and a.mid stays. With norms on
  // outputs, the blocks keep all that is needed, and the call for the weights does not read `grad`.
  void Backward(const Execution& run, LayerActivations& a, const Tensor& grad, const Tensor& input_grad,
                Gradients gradients, bool accumulate) const;

 private:
  // What the feed-forward block reads of the residual stream.
  const Tensor& FeedForwardInput(const LayerActivations& a) const { return parallel_ ? a.x : a.mid; }

  const bool parallel_;       // both blocks read x
  const bool norms_outputs_;  // of blocks
  Workspace& workspace_;
  AttentionBlock attention_;
  FeedForwardBlock feed_forward_;
};

}  // namespace autocfg::trainer
