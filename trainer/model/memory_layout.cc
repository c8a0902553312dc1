#include "trainer/model/memory_layout.h"

#include "kernels/ops.h"
#include "search/plan/rank_mesh.h"
#include "trainer/comm/communicator.h"

namespace autocfg {

MemoryLayout::MemoryLayout(const RankShape& shape, int slots, Arena& arena)
    : shape_(shape),
      arena_(arena),
      parameters_(RankParameters(shape)),
      tensors_(parameters_.size()),
      slots_(slots) {
  const Precision& precision = shape.workload.precision;
  AddParameters(Region::kParameters, precision.parameters, &ParameterTensors::value);
  AddParameters(Region::kGradients, precision.gradients, &ParameterTensors::grad);
  AddParameters(Region::kOptimizer, precision.optimizer, &ParameterTensors::m);
  AddParameters(Region::kOptimizer, precision.optimizer, &ParameterTensors::v);
  for (ActivationSlot& slot : slots_) AddSlot(slot);
  if (slots > 0) slot_bytes_ = arena.ReservedBytes(Region::kActivations) / slots;
  AddWorkspace();
  AddCommunication();
}

void MemoryLayout::Resolve() {
  for (const auto& [reservation, target] : pending_) *target = arena_.At(reservation);
  pending_.clear();
  all_gradients_ = arena_.Whole(Region::kGradients, shape_.workload.precision.gradients);
  if (shape_.plan.recompute == Recompute::kFull) {
    for (ActivationSlot& slot : slots_) {
      for (LayerActivations& layer : slot.layers) {
        const Tensor x = layer.x;
        layer = workspace_.recompute;
        layer.x = x;
      }
    }
  }
}

void MemoryLayout::Add(Region region, Tensor& target, DType dtype,
                       std::initializer_list<std::int64_t> shape) {
  pending_.emplace_back(arena_.Reserve(region, dtype, shape), &target);
}

void MemoryLayout::AddParameters(Region region, DType dtype, Tensor ParameterTensors::*member) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::vector<std::int64_t>& dims = parameters_[i].shape;
    Tensor& target = tensors_[i].*member;
    if (dims.size() == 1) {
      Add(region, target, dtype, {dims[0]});
    } else {
      Add(region, target, dtype, {dims[0], dims[1]});
    }
  }
}

void MemoryLayout::AddLayerOutputs(Region region, LayerActivations& a) {
  const RankShape& s = shape_;
  const DType e = s.workload.precision.compute;
  const DType stat = s.workload.precision.statistics;
  Add(region, a.mean1, stat, {s.tokens});
  Add(region, a.rstd1, stat, {s.tokens});
  Add(region, a.ln1, e, {s.tokens, s.hidden});
  Add(region, a.qkv, e, {s.tokens, 3 * s.attention});
  Add(region, a.lse, stat, {s.micro_batch, s.heads, s.seq_len});
  Add(region, a.attn, e, {s.tokens, s.attention});
  Add(region, a.mid, e, {s.tokens, s.hidden});
  Add(region, a.mean2, stat, {s.tokens});
  Add(region, a.rstd2, stat, {s.tokens});
  Add(region, a.ln2, e, {s.tokens, s.hidden});
  Add(region, a.fc, e, {s.tokens, s.ffn});
  Add(region, a.gelu, e, {s.tokens, s.ffn});
}

void MemoryLayout::AddSlot(ActivationSlot& slot) {
  const RankShape& s = shape_;
  const DType e = s.workload.precision.compute;
  const DType stat = s.workload.precision.statistics;
  constexpr Region kRegion = Region::kActivations;
  if (s.first) Add(kRegion, slot.tokens, DType::kI32, {s.tokens});
  slot.layers.resize(s.layers.count);
  for (LayerActivations& layer : slot.layers) {
    Add(kRegion, layer.x, e, {s.tokens, s.hidden});
    if (s.plan.recompute == Recompute::kNone) AddLayerOutputs(kRegion, layer);
  }
  if (!s.last) return;
  HeadActivations& head = slot.head;
  Add(kRegion, head.x_final, e, {s.tokens, s.hidden});
  Add(kRegion, head.mean, stat, {s.tokens});
  Add(kRegion, head.rstd, stat, {s.tokens});
  Add(kRegion, head.ln, e, {s.tokens, s.hidden});
  Add(kRegion, head.logits, e, {s.tokens, s.vocab});
  Add(kRegion, head.max, stat, {s.tokens});
  Add(kRegion, head.sums, stat, {2, s.tokens});
  Add(kRegion, head.targets, DType::kI32, {s.tokens});
}

void MemoryLayout::AddWorkspace() {
  const RankShape& s = shape_;
  const DType e = s.workload.precision.compute;
  constexpr Region kRegion = Region::kWorkspace;
  if (s.plan.pp == 1) {
    const Reservation grad = arena_.Reserve(kRegion, e, {s.tokens, s.hidden});
    for (Tensor& target : grads_) pending_.emplace_back(grad, &target);
  }
  Add(kRegion, workspace_.grad_b, e, {s.tokens, s.hidden});
  Add(kRegion, workspace_.grad_qkv, e, {s.tokens, 3 * s.attention});
  Add(kRegion, workspace_.grad_attn, e, {s.tokens, s.attention});
  Add(kRegion, workspace_.grad_ffn, e, {s.tokens, s.ffn});
  Add(kRegion, workspace_.attention, s.workload.precision.statistics,
      {AttentionWorkspaceElements(s.seq_len, s.head_dim)});
  if (s.plan.recompute == Recompute::kFull) AddLayerOutputs(kRegion, workspace_.recompute);
  Add(kRegion, workspace_.scalars, DType::kF64, {2});
}

void MemoryLayout::AddCommunication() {
  const RankShape& s = shape_;
  constexpr Region kRegion = Region::kCommunication;
  if (s.plan.pp > 1) {
    const DType e = s.workload.precision.compute;
    for (Tensor& grad : grads_) Add(kRegion, grad, e, {s.tokens, s.hidden});
    if (!s.last) {
      for (Tensor& output : outputs_) Add(kRegion, output, e, {s.tokens, s.hidden});
    }
  }
  const RankMesh mesh(s.plan);
  const std::pair<CommGroup, Tensor*> groups[] = {{CommGroup::kTensor, &staging_.tensor},
                                                  {CommGroup::kData, &staging_.data},
                                                  {CommGroup::kEmbedding, &staging_.embedding},
                                                  {CommGroup::kWorld, &staging_.world}};
  for (const auto& [group, target] : groups) {
    if (group == CommGroup::kEmbedding && !s.model.tied_embeddings) continue;
    if (mesh.Group(s.rank, group).size() < 2) continue;
    Add(kRegion, *target, DType::kI32, {kCollectiveStagingBytes / SizeOf(DType::kI32)});
  }
}

}  // namespace autocfg
