// The input of the first stage: token embedding and, if the model has them, learned positions. Holds views
// only; one rank, one thread.
#pragma once

#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

class Embedding {
 public:
  // Requires: shape.place.first. `shape` and `layout` must outlive the result.
  Embedding(const RankShape& shape, const MemoryLayout& layout);

  // Computes the first layer's x from slot.tokens.
  void Forward(const Execution& run, const ActivationSlot& slot) const;
  // Computes the parameter gradients, given grad[R,H]; adds to them if `accumulate`. Always adds to a tied
  // embedding's if the rank has the head too, which writes it first.
  void Backward(const Execution& run, const ActivationSlot& slot, const Tensor& grad, bool accumulate) const;

 private:
  const RankShape& shape_;
  const Workspace& workspace_;
  Weight wte_;
  Weight wpe_;  // absent without learned positions
};

}  // namespace autocfg::trainer
