#include "trainer/model/pipeline_stage.h"

#include "trainer/layout/memory_layout.h"

namespace autocfg::trainer {

PipelineStage::PipelineStage(const RankShape& shape, const MemoryLayout& layout, std::size_t chunk)
    : recomputes_scores_(RecomputesScores(shape.plan)), loss_(LossScalar(layout.workspace())) {
  const StageShape& stage = shape.chunks.at(chunk);
  recomputed_ = static_cast<std::size_t>(stage.recomputed);
  if (stage.first) embedding_.emplace(shape, layout);
  for (std::int64_t l = 0; l < stage.layers.count; ++l) {
    layers_.emplace_back(shape, layout, stage.layers.first + l);
  }
  if (stage.last) head_.emplace(shape, layout);
}

void PipelineStage::Forward(const Execution& run, const ActivationSlot& slot, const Tensor& output) const {
  if (embedding_) embedding_->Forward(run, slot);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const bool last_layer = l + 1 == layers_.size();
    const Tensor& out = !last_layer ? slot.layers[l + 1].x : head_ ? slot.head.x_final : output;
    layers_[l].Forward(run, slot.layers[l], out);
  }
  if (head_) head_->Forward(run, slot.head, loss_);
}

void PipelineStage::Backward(const Execution& run, const ActivationSlot& slot, const Tensor& grad,
                             bool accumulate) const {
  if (head_) head_->Backward(run, slot.head, grad, accumulate);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    if (l < recomputed_) layers_[l].Recompute(run, slot.layers[l]);
    if (recomputes_scores_) layers_[l].RecomputeScores(run, slot.layers[l]);
    layers_[l].Backward(run, slot.layers[l], grad, accumulate);
  }
  if (embedding_) embedding_->Backward(run, slot, grad, accumulate);
}

}  // namespace autocfg::trainer
