// The end of the last stage: final norm, output layer (lm_head or the tied embedding) and loss. Holds views
// only; one rank, one thread.
#pragma once

#include "trainer/blocks/norm.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

class OutputHead {
 public:
  // Requires: shape.place.last. `shape` and `layout` must outlive the result.
  OutputHead(const RankShape& shape, const MemoryLayout& layout);

  // The unit of the output layer; of the table if it is tied.
  std::size_t unit() const { return output_.unit; }

  // Computes the microbatch's summed loss from head.x_final and head.targets, and adds it to `loss`[1].
  // Stores what Backward needs in head.logits; if the vocabulary is not split, that is already the gradient
  // of the logits.
  void Forward(const Execution& run, const HeadActivations& head, const Tensor& loss) const;
  // Starts the backward: computes grad[R,H], the gradient of the step's mean loss with respect to
  // head.x_final. Computes the parameter gradients too; adds to them if `accumulate`.
  void Backward(const Execution& run, const HeadActivations& head, const Tensor& grad, bool accumulate) const;

 private:
  // Multiplies the input of the output layer, or its gradient, by the model's logit_scale.
  void Scale(const Execution& run, const Tensor& rows) const;

  const RankShape& shape_;
  const Workspace& workspace_;
  Weight output_;  // [V,H]
  NormLayer norm_;
};

}  // namespace autocfg::trainer
