// One stage of the model, a chunk of its rank: its layers, preceded by the embedding on the first stage and
// followed by the output head on the last stage. One rank, one thread.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "search/schedule/action_kinds.h"
#include "trainer/blocks/embedding.h"
#include "trainer/blocks/output_head.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/model/transformer_layer.h"
#include "trainer/parallel/unit_exchange.h"

namespace autocfg::trainer {

class PipelineStage {
 public:
  // `shape` and `layout` (resolved) must outlive the result. Requires: chunk < shape.chunks.size().
  PipelineStage(const RankShape& shape, MemoryLayout& layout, std::size_t chunk);

  // Runs a microbatch forward. The first stage reads slot.tokens; other stages read the x of the slot's first
  // layer, which must have arrived. The last stage adds to the loss and needs slot.head.targets; other stages
  // write their result to `output`.
  void Forward(const Execution& run, const ActivationSlot& slot, const Tensor& output) const;

  // Runs a microbatch backward. On entry `grad` holds the gradient with respect to the stage's output (last
  // stage: any content). On return it holds the gradient with respect to its input. Gradients of parameters
  // are written, or added to if `accumulate`: all but the weight gradients of the layers that delay them
  // (LayersWithDelayedGradients), which WeightGradient computes. For it the slot keeps the gradients that it
  // reads, in the place of activations: tensors of the slot, `grad` and the workspace are exchanged.
  void Backward(const Execution& run, ActivationSlot& slot, Tensor& grad, bool accumulate) const;
  void WeightGradient(const Execution& run, ActivationSlot& slot, bool accumulate) const;

  // Returns the units that an action of this kind uses.
  const UnitsOfAction& UnitsOf(ActionKind kind) const { return units_[Index(kind)]; }

 private:
  void ListUnits(const RankShape& shape);
  // Recomputes what the backward of a layer reads and its slot does not have.
  void Recompute(const Execution& run, const ActivationSlot& slot, std::size_t layer) const;

  std::size_t recomputed_;     // the number of recomputed layers, from the first on
  std::size_t first_delayed_;  // the first layer that delays its weight gradients, as do all after it
  bool in_place_;              // input gradients replace the gradient of the stream (transformer_layer.h)
  Workspace& workspace_;
  Tensor loss_;
  std::optional<Embedding> embedding_;
  std::vector<TransformerLayer> layers_;
  std::optional<OutputHead> head_;
  std::array<UnitsOfAction, kActionKinds> units_;  // by kind of stage compute
};

}  // namespace autocfg::trainer
