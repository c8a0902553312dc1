#include "trainer/model/pipeline_stage.h"

#include <utility>

#include "search/plan/model_stages.h"

namespace autocfg::trainer {

PipelineStage::PipelineStage(const RankShape& shape, MemoryLayout& layout, std::size_t chunk)
    : in_place_(NormsOutputs(shape.model.norm_placement)),
      workspace_(layout.workspace()),
      loss_(LossScalar(layout.workspace())) {
  const StageShape& stage = shape.chunks.at(chunk);
  recomputed_ = static_cast<std::size_t>(stage.recomputed);
  first_delayed_ = static_cast<std::size_t>(stage.layers.count - stage.delayed);
  if (stage.first) embedding_.emplace(shape, layout);
  for (std::int64_t l = 0; l < stage.layers.count; ++l) {
    layers_.emplace_back(shape, layout, stage.layers.first + l);
  }
  if (stage.last) head_.emplace(shape, layout);
  ListUnits(shape);
}

void PipelineStage::ListUnits(const RankShape& shape) {
  const ParallelPlan& plan = shape.plan;
  UnitsOfAction& forward = units_[Index(ActionKind::kForward)];
  UnitsOfAction backward, weights;
  // A tied table stays in its buffer from the embedding on (docs/engine.md, "Units").
  const bool reads_head = head_ && !(embedding_ && shape.model.tied_embeddings);
  if (embedding_) forward.read = embedding_->units();
  for (const TransformerLayer& layer : layers_) forward.read.push_back(layer.unit());
  if (reads_head) forward.read.push_back(head_->unit());
  if (reads_head && !KeepsGatheredHead(plan)) backward.read.push_back(head_->unit());
  if (head_ && !EmbeddingAddsToHead(shape.model, plan)) backward.completed.push_back(head_->unit());
  for (std::size_t l = layers_.size(); l-- > 0;) {
    backward.read.push_back(layers_[l].unit());
    (l >= first_delayed_ ? weights : backward).completed.push_back(layers_[l].unit());
  }
  if (embedding_) {
    const std::vector<std::size_t> units = embedding_->units();
    backward.completed.insert(backward.completed.end(), units.rbegin(), units.rend());
  }
  const ActionKind kind = SplitsBackward(plan) ? ActionKind::kInputGradient : ActionKind::kBackward;
  units_[Index(kind)] = std::move(backward);
  units_[Index(ActionKind::kWeightGradient)] = std::move(weights);
}

void PipelineStage::Forward(const Execution& run, const ActivationSlot& slot, const Tensor& output) const {
  if (embedding_) embedding_->Forward(run, slot);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const bool last_layer = l + 1 == layers_.size();
    const Tensor& out = !last_layer ? slot.layers[l + 1].x : head_ ? slot.head.x_final : output;
    run.units->Read(run, layers_[l].unit());
    layers_[l].Forward(run, slot.layers[l], out);
  }
  if (head_) head_->Forward(run, slot.head, loss_);
}

void PipelineStage::Backward(const Execution& run, const ActivationSlot& slot, const Tensor& grad,
                             bool accumulate) const {
  if (head_) head_->Backward(run, slot.head, grad, accumulate);
  LayersBackward(run, slot, layers_.size(), grad, accumulate);
  if (embedding_) embedding_->Backward(run, slot, grad, accumulate);
}

void PipelineStage::Recompute(const Execution& run, const ActivationSlot& slot, std::size_t l) const {
  const TransformerLayer& layer = layers_[l];
  if (l < recomputed_) {
    run.Observed(Section::kRecompute, [&] { layer.Recompute(run, slot.layers[l]); });
  } else if (layer.recomputes_parts()) {
    run.Observed(Section::kRecompute, [&] { layer.RecomputeParts(run, slot.layers[l]); });
  }
}

void PipelineStage::LayersBackward(const Execution& run, const ActivationSlot& slot, std::size_t count,
                                   const Tensor& grad, bool accumulate) const {
  for (std::size_t l = count; l-- > 0;) {
    run.units->Read(run, layers_[l].unit());
    run.units->Write(run, layers_[l].unit());
    Recompute(run, slot, l);
    layers_[l].Backward(run, slot.layers[l], grad, accumulate);
    run.units->Reduce(run, layers_[l].unit(), accumulate);
  }
}

// The gradient with respect to the output of layer l is kept where the input of layer l + 1 was. That of the
// last layer is kept where the input of the stage was, in exchange for a buffer of the same size. With norms
// on outputs, these gradients are not needed again.
void PipelineStage::InputGradient(const Execution& run, ActivationSlot& slot, Tensor& grad,
                                  bool accumulate) const {
  if (first_delayed_ == layers_.size()) return Backward(run, slot, grad, accumulate);
  if (head_) head_->Backward(run, slot.head, grad, accumulate);
  if (in_place_) {
    for (std::size_t l = layers_.size(); l-- > first_delayed_;) {
      run.units->Read(run, layers_[l].unit());
      Recompute(run, slot, l);
      layers_[l].InputGradient(run, slot.layers[l], grad, grad, accumulate);
    }
    LayersBackward(run, slot, first_delayed_, grad, accumulate);
    if (embedding_) embedding_->Backward(run, slot, grad, accumulate);
    return;
  }
  const Tensor* output_grad = &grad;
  for (std::size_t l = layers_.size(); l-- > first_delayed_;) {
    LayerActivations& a = slot.layers[l];
    run.units->Read(run, layers_[l].unit());
    Recompute(run, slot, l);
    const bool last = l == first_delayed_;
    Tensor& input_grad = last ? workspace_.input_grad : workspace_.next_grad;
    layers_[l].InputGradient(run, a, *output_grad, input_grad, accumulate);
    if (last) break;
    std::swap(a.x, input_grad);
    output_grad = &a.x;
  }
  LayersBackward(run, slot, first_delayed_, workspace_.input_grad, accumulate);
  if (embedding_) embedding_->Backward(run, slot, workspace_.input_grad, accumulate);
  std::swap(grad, workspace_.input_grad);
  std::swap(slot.layers.front().x, workspace_.input_grad);
}

void PipelineStage::WeightGradient(const Execution& run, const ActivationSlot& slot, bool accumulate) const {
  for (std::size_t l = layers_.size(); l-- > first_delayed_;) {
    const std::size_t kept_at = l + 1 < layers_.size() ? l + 1 : 0;
    run.units->Write(run, layers_[l].unit());
    layers_[l].WeightGradient(run, slot.layers[l], slot.layers[kept_at].x, accumulate);
    run.units->Reduce(run, layers_[l].unit(), accumulate);
  }
}

}  // namespace autocfg::trainer
