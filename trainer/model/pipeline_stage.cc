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

void PipelineStage::Recompute(const Execution& run, const ActivationSlot& slot, std::size_t l) const {
  const bool all = l < recomputed_;
  if (!all && !layers_[l].recomputes_parts()) return;
  run.Observed(Section::kRecompute, [&] { layers_[l].Recompute(run, slot.layers[l], all); });
}

// A layer that delays its weight gradients leaves the gradient with respect to its output to WeightGradient.
// That of layer l is kept where the input of layer l + 1 was. That of the last layer is kept where the input
// of the stage was, in exchange for a buffer of the same size. With norms on outputs, none is needed again.
void PipelineStage::Backward(const Execution& run, ActivationSlot& slot, Tensor& grad,
                             bool accumulate) const {
  if (head_) head_->Backward(run, slot.head, grad, accumulate);
  Tensor &next_grad = workspace_.next_grad, &stage_grad = workspace_.input_grad;
  const Tensor* stream_grad = &grad;
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const TransformerLayer& layer = layers_[l];
    LayerActivations& a = slot.layers[l];
    const bool delays = l >= first_delayed_, keeps_grad = delays && !in_place_;
    const Tensor& input_grad = !keeps_grad ? *stream_grad : l == first_delayed_ ? stage_grad : next_grad;
    run.units->Read(run, layer.unit());
    if (!delays) run.units->Write(run, layer.unit());
    Recompute(run, slot, l);
    layer.Backward(run, a, *stream_grad, input_grad, delays ? Gradients::kInputs : Gradients::kAll,
                   accumulate);
    if (!delays) run.units->Reduce(run, layer.unit(), accumulate);
    if (!keeps_grad) continue;
    if (l > first_delayed_) std::swap(a.x, next_grad);
    stream_grad = l > first_delayed_ ? &a.x : &stage_grad;
  }
  if (embedding_) embedding_->Backward(run, slot, *stream_grad, accumulate);
  if (stream_grad == &grad) return;
  std::swap(grad, stage_grad);
  std::swap(slot.layers.front().x, stage_grad);
}

void PipelineStage::WeightGradient(const Execution& run, ActivationSlot& slot, bool accumulate) const {
  for (std::size_t l = layers_.size(); l-- > first_delayed_;) {
    const Tensor& kept_grad = slot.layers[l + 1 < layers_.size() ? l + 1 : 0].x;
    run.units->Write(run, layers_[l].unit());
    layers_[l].Backward(run, slot.layers[l], kept_grad, /*input_grad=*/{}, Gradients::kWeights, accumulate);
    run.units->Reduce(run, layers_[l].unit(), accumulate);
  }
}

}  // namespace autocfg::trainer
