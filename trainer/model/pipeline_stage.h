// One stage of the model, a chunk of the rank that computes it: its layers, with the embedding before those
// of the first stage and the output head after those of the last. One rank, one thread.
#pragma once

#include <optional>
#include <vector>

#include "trainer/model/embedding.h"
#include "trainer/model/memory_layout.h"
#include "trainer/model/output_head.h"
#include "trainer/model/transformer_layer.h"

namespace autocfg {

class PipelineStage {
 public:
  // `shape` and `layout` (resolved) must outlive the result. Requires: chunk < shape.chunks.size().
  PipelineStage(const RankShape& shape, const MemoryLayout& layout, std::size_t chunk);

  // Runs a microbatch forward. First stage: from slot.tokens; elsewhere from the x of the slot's first layer,
  // which has arrived. Last stage: adds to the loss, needs slot.head.targets; elsewhere leaves its result in
  // `output`.
  void Forward(const Execution& run, const ActivationSlot& slot, const Tensor& output) const;

  // Runs it backward. `grad` holds the gradient by the stage's output (last stage: anything) and ends as that
  // by its input.
  void Backward(const Execution& run, const ActivationSlot& slot, const Tensor& grad) const;

 private:
  std::size_t recomputed_;  // layers, from the first on
  Tensor loss_;
  std::optional<Embedding> embedding_;
  std::vector<TransformerLayer> layers_;
  std::optional<OutputHead> head_;
};

}  // namespace autocfg
