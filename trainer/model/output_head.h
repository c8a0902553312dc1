// The end of the last stage: final norm, output layer (lm_head, or the tied embedding) and loss. Views only;
// one rank, one thread.
#pragma once

#include "trainer/model/memory_layout.h"
#include "trainer/model/norm.h"
#include "trainer/parallel/execution.h"
#include "trainer/parallel/linear_parameters.h"

namespace autocfg {

class OutputHead {
 public:
  // Requires: shape.holds_head. `shape` and `layout` must outlive the result.
  OutputHead(const RankShape& shape, const MemoryLayout& layout);

  // head.x_final, head.targets -> the microbatch's summed loss, added to `loss`[1]. What Backward needs of
  // the logits is in head.logits: where the vocabulary is not split, their gradient already.
  void Forward(const Execution& run, const HeadActivations& head, const Tensor& loss) const;
  // Starts the backward: grad[T,H] = gradient by head.x_final of the step's mean loss. Parameter gradients
  // accumulate.
  void Backward(const Execution& run, const HeadActivations& head, const Tensor& grad) const;

 private:
  const RankShape& shape_;
  const Workspace& workspace_;
  Weight output_;  // [V,H]
  NormLayer norm_;
};

}  // namespace autocfg
