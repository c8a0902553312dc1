#include "trainer/layout/memory_layout.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/ops.h"
#include "search/ops/memory_sizes.h"
#include "search/plan/rank_mesh.h"

namespace autocfg::trainer {
namespace {

bool AnyRecomputes(const RankShape& shape) {
  return std::any_of(shape.chunks.begin(), shape.chunks.end(),
                     [](const StageShape& chunk) { return chunk.recomputed > 0; });
}

bool SendsOutput(const RankShape& shape) {
  return std::any_of(shape.chunks.begin(), shape.chunks.end(),
                     [](const StageShape& chunk) { return !chunk.last; });
}

}  // namespace

MemoryLayout::MemoryLayout(const RankShape& shape, std::span<const int> slots, Arena& arena)
    : shape_(shape),
      arena_(arena),
      parameters_(RankParameters(shape)),
      tensors_(parameters_.size()),
      slots_(shape.chunks.size()) {
  if (slots.size() != shape.chunks.size())
    throw std::invalid_argument("memory layout: expected slots for each chunk");
  const Precision& precision = shape.workload.precision;
  AddParameters(Region::kParameters, precision.parameters, &ParameterTensors::value);
  AddParameters(Region::kGradients, precision.gradients, &ParameterTensors::grad);
  if (precision.master_weights) {
    AddParameters(Region::kOptimizer, precision.optimizer, &ParameterTensors::master);
  }
  AddParameters(Region::kOptimizer, precision.optimizer, &ParameterTensors::m);
  AddParameters(Region::kOptimizer, precision.optimizer, &ParameterTensors::v);
  for (std::size_t c = 0; c < slots_.size(); ++c) {
    const std::int64_t before = arena.ReservedBytes(Region::kActivations);
    slots_[c].resize(static_cast<std::size_t>(slots[c]));
    for (ActivationSlot& slot : slots_[c]) AddSlot(shape.chunks[c], slot);
    const std::int64_t bytes = arena.ReservedBytes(Region::kActivations) - before;
    slot_bytes_.push_back(slots[c] > 0 ? bytes / slots[c] : 0);
  }
  AddWorkspace();
  AddCommunication();
}

void MemoryLayout::Resolve() {
  for (const auto& [reservation, target] : pending_) *target = arena_.At(reservation);
  pending_.clear();
  all_gradients_ = arena_.Whole(Region::kGradients, shape_.workload.precision.gradients);
  if (!IsGated(shape_.model.activation)) workspace_.grad_fc = workspace_.grad_ffn;
  for (std::size_t c = 0; c < slots_.size(); ++c) {
    for (ActivationSlot& slot : slots_[c]) {
      if (RecomputesScores(shape_.plan)) {
        for (LayerActivations& layer : slot.layers) layer.probabilities = workspace_.probabilities;
      }
      for (std::int64_t l = 0; l < shape_.chunks[c].recomputed; ++l) {
        LayerActivations& layer = slot.layers[static_cast<std::size_t>(l)];
        const Tensor x = layer.x;
        layer = workspace_.recompute;
        layer.x = x;
      }
    }
  }
}

Weight MemoryLayout::Find(ParameterKind kind, std::int64_t layer) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].kind == kind && parameters_[i].layer == layer)
      return {tensors_[i].value, tensors_[i].grad};
  }
  return {};
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

void MemoryLayout::AddNorm(Region region, NormStatistics& statistics) {
  const DType stat = shape_.workload.precision.statistics;
  if (HasMean(shape_.model.norm)) Add(region, statistics.mean, stat, {shape_.tokens});
  Add(region, statistics.rstd, stat, {shape_.tokens});
}

void MemoryLayout::AddLayerOutputs(Region region, LayerActivations& a) {
  const RankShape& s = shape_;
  const DType e = s.workload.precision.compute;
  const DType stat = s.workload.precision.statistics;
  AddNorm(region, a.norm1);
  Add(region, a.ln1, e, {s.tokens, s.hidden});
  Add(region, a.qkv, e, {s.tokens, s.qkv});
  if (!IsUnfused(s.plan)) {
    Add(region, a.lse, stat, {s.micro_batch, s.heads, s.seq_len});
  } else if (!RecomputesScores(s.plan)) {
    AddProbabilities(region, a.probabilities);
  }
  Add(region, a.attn, e, {s.tokens, s.attention});
  Add(region, a.mid, e, {s.tokens, s.hidden});
  AddNorm(region, a.norm2);
  Add(region, a.ln2, e, {s.tokens, s.hidden});
  Add(region, a.fc, e, {s.tokens, s.fc});
  Add(region, a.act, e, {s.tokens, s.ffn});
}

void MemoryLayout::AddProbabilities(Region region, Tensor& target) {
  const RankShape& s = shape_;
  Add(region, target, s.workload.precision.compute, {s.micro_batch, s.heads, s.seq_len, s.seq_len});
}

void MemoryLayout::AddSlot(const StageShape& chunk, ActivationSlot& slot) {
  const RankShape& s = shape_;
  const DType e = s.workload.precision.compute;
  const DType stat = s.workload.precision.statistics;
  constexpr Region kRegion = Region::kActivations;
  if (chunk.first) Add(kRegion, slot.tokens, DType::kI32, {s.tokens});
  slot.layers.resize(static_cast<std::size_t>(chunk.layers.count));
  for (std::size_t l = 0; l < slot.layers.size(); ++l) {
    Add(kRegion, slot.layers[l].x, e, {s.tokens, s.hidden});
    if (static_cast<std::int64_t>(l) >= chunk.recomputed) AddLayerOutputs(kRegion, slot.layers[l]);
  }
  if (!chunk.last) return;
  HeadActivations& head = slot.head;
  Add(kRegion, head.x_final, e, {s.tokens, s.hidden});
  AddNorm(kRegion, head.norm);
  Add(kRegion, head.ln, e, {s.tokens, s.hidden});
  Add(kRegion, head.logits, e, {s.tokens, s.vocab});
  if (s.plan.tp > 1) {
    Add(kRegion, head.max, stat, {s.tokens});
    Add(kRegion, head.sums, stat, {2, s.tokens});
  }
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
  Add(kRegion, workspace_.grad_qkv, e, {s.tokens, s.qkv});
  Add(kRegion, workspace_.grad_attn, e, {s.tokens, s.attention});
  Add(kRegion, workspace_.grad_ffn, e, {s.tokens, s.ffn});
  if (IsGated(s.model.activation)) Add(kRegion, workspace_.grad_fc, e, {s.tokens, s.fc});
  if (IsUnfused(s.plan)) {
    AddProbabilities(kRegion, workspace_.dscores);
  } else {
    Add(kRegion, workspace_.attention, s.workload.precision.statistics,
        {AttentionWorkspaceElements(s.seq_len, s.head_dim)});
  }
  if (RecomputesScores(s.plan)) AddProbabilities(kRegion, workspace_.probabilities);
  if (AnyRecomputes(s)) AddLayerOutputs(kRegion, workspace_.recompute);
  Add(kRegion, workspace_.scalars, DType::kF64, {kStepScalars});
}

void MemoryLayout::AddCommunication() {
  const RankShape& s = shape_;
  constexpr Region kRegion = Region::kCommunication;
  if (s.plan.pp > 1) {
    const DType e = s.workload.precision.compute;
    for (Tensor& grad : grads_) Add(kRegion, grad, e, {s.tokens, s.hidden});
    if (SendsOutput(s)) {
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

}  // namespace autocfg::trainer
