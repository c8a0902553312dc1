#include "trainer/model/transformer_layer.h"

#include <utility>

namespace autocfg::trainer {

TransformerLayer::TransformerLayer(const RankShape& shape, MemoryLayout& layout, std::int64_t layer)
    : parallel_(shape.model.parallel_residual),
      norms_outputs_(NormsOutputs(shape.model.norm_placement)),
      workspace_(layout.workspace()),
      attention_(shape, layout, layer),
      feed_forward_(shape, layout, layer) {}

void TransformerLayer::Forward(const Execution& run, const LayerActivations& a, const Tensor& out) const {
  attention_.Forward(run, a.x, a.attention, a.mid);
  feed_forward_.Forward(run, FeedForwardInput(a), a.feed_forward, a.mid, out);
}

void TransformerLayer::Recompute(const Execution& run, const LayerActivations& a, bool all) const {
  if (all) {
    attention_.Forward(run, a.x, a.attention, a.mid);
  } else {
    attention_.RecomputeParts(run, a.x, a.attention);
  }
  feed_forward_.Recompute(run, FeedForwardInput(a), a.feed_forward, all);
}

void TransformerLayer::Backward(const Execution& run, LayerActivations& a, const Tensor& grad,
                                const Tensor& input_grad, Gradients gradients, bool accumulate) const {
  Tensor& next_grad = workspace_.next_grad;
  const bool in_place = gradients == Gradients::kAll || norms_outputs_;
  const bool keeps_grad = gradients == Gradients::kInputs && !norms_outputs_;
  // Side by side, both blocks read the gradient of the output, which the norm before feed-forward changes.
  const bool attention_first = parallel_ && OfInputs(gradients);
  Tensor block_grad = feed_forward_.OutputGradient(run, a.feed_forward, grad, gradients, accumulate);
  feed_forward_.OutputBackward(run, a.feed_forward, block_grad, gradients, accumulate);
  if (attention_first) attention_.OutputBackward(run, a.attention, block_grad, gradients, accumulate);
  feed_forward_.InputBackward(run, FeedForwardInput(a), a.feed_forward,
                              keeps_grad && !parallel_ ? next_grad : input_grad, /*add_to_dx=*/in_place,
                              gradients, accumulate);
  if (keeps_grad && !parallel_) {
    run.ops.ResidualAdd(next_grad, grad, run.stream);
    std::swap(a.mid, next_grad);
  }
  const Tensor& mid_grad = in_place || parallel_ ? grad : a.mid;
  if (!parallel_) block_grad = attention_.OutputGradient(run, a.attention, mid_grad, gradients, accumulate);
  if (!attention_first) attention_.OutputBackward(run, a.attention, block_grad, gradients, accumulate);
  attention_.InputBackward(run, a.x, a.attention, input_grad, /*add_to_dx=*/in_place || parallel_, gradients,
                           accumulate);
  if (keeps_grad) run.ops.ResidualAdd(input_grad, mid_grad, run.stream);
}

}  // namespace autocfg::trainer
