// The input of the first stage: token embedding and, if the model has them, learned positions and a norm.
// Holds views only; one rank, one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/blocks/norm.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

class Embedding {
 public:
  // Requires: shape.place.first. `shape` and `layout` must outlive the result.
  Embedding(const RankShape& shape, const MemoryLayout& layout);

  // The units of the table and of learned positions, in the order in which the forward reads them.
  std::vector<std::size_t> units() const {
    return wpe_.present() ? std::vector{wte_.unit, wpe_.unit} : std::vector{wte_.unit};
  }

  // Computes the first layer's x from slot.tokens.
  void Forward(const Execution& run, const ActivationSlot& slot) const;
  // Computes the parameter gradients, given grad[R,H]; adds to them if `accumulate`. Always adds to a tied
  // embedding's if the rank has the head too, which writes it first.
  // Overwrites grad.
  void Backward(const Execution& run, const ActivationSlot& slot, const Tensor& grad, bool accumulate) const;

 private:
  // Multiplies embeddings, or their gradient, by the model's embedding_scale.
  void Scale(const Execution& run, const Tensor& rows) const;

  const RankShape& shape_;
  const Workspace& workspace_;
  Weight wte_;
  Weight wpe_;      // absent without learned positions
  NormLayer norm_;  // used only in a model with a norm of the embeddings
};

}  // namespace autocfg::trainer
