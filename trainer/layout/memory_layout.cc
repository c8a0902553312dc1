#include "trainer/layout/memory_layout.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/ops.h"
#include "search/ops/memory_sizes.h"
#include "search/plan/placement.h"
#include "search/schedule/compute_order.h"

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

// Returns true if the slots of the last stage have one set of the head's tensors. Where backwards are split,
// a microbatch needs them only until its input gradient, which follows its forward at once.
bool SharesHead(const RankShape& shape) { return SplitsBackward(shape.plan); }

}  // namespace

MemoryLayout::MemoryLayout(const RankShape& shape, std::span<const int> slots, Arena& arena)
    : shape_(shape),
      arena_(arena),
      parameters_(RankParameters(shape)),
      grouping_(GroupParameters(parameters_, shape.shards)),
      tensors_(parameters_.size()),
      units_(grouping_.units.size()),
      slots_(shape.chunks.size()),
      grads_(static_cast<std::size_t>(
          GradientBuffers(PipelineShape(shape.model, shape.plan, shape.microbatches), shape.pipeline))) {
  if (slots.size() != shape.chunks.size())
    throw std::invalid_argument("memory layout: expected slots for each chunk");
  for (std::size_t u = 0; u < units_.size(); ++u) units_[u].kind = grouping_.units[u].kind;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const UnitPlace& place = grouping_.places[i];
    tensors_[i].own = OwnRangeOf(grouping_.units[place.unit], place.offset,
                                 ElementCount(parameters_[i].shape), shape.shard, shape.shards);
  }
  AddUnits(Region::kParameters, State::kParameters, kValues);
  AddUnits(Region::kGradients, State::kGradients, kGradients);
  if (shape.workload.precision.master) AddOptimizerState(State::kMaster, &ParameterTensors::master);
  const int moments = MomentCount(shape.workload.optimizer);
  if (moments > 0) AddOptimizerState(State::kMoments, &ParameterTensors::m);
  if (moments > 1) AddOptimizerState(State::kMoments, &ParameterTensors::v);
  AddWorkspace();
  for (std::size_t c = 0; c < slots_.size(); ++c) {
    const std::int64_t before = arena.ReservedBytes(Region::kActivations);
    slots_[c].resize(static_cast<std::size_t>(slots[c]));
    for (ActivationSlot& slot : slots_[c]) AddSlot(shape.chunks[c], slot);
    const std::int64_t bytes = arena.ReservedBytes(Region::kActivations) - before;
    slot_bytes_.push_back(slots[c] > 0 ? bytes / slots[c] : 0);
    if (shape.chunks[c].last && SharesHead(shape) && slots[c] > 0) AddHead(slots_[c].front().head);
  }
  AddCommunication();
}

Tensor MemoryLayout::summed_norm_gradients() const {
  const Tensor& all = units_[kNormUnit].grad;
  const std::int64_t own = grouping_.own_head_norms;
  if (!SplitsSequence(shape_.plan)) return all.Slice(0, own);
  // With norms over all heads, those of q and k are split like the heads, and not summed.
  return shape_.model.qk_norm == QkNorm::kFull ? all.Slice(own, all.Elements() - own) : all;
}

Tensor MemoryLayout::own_shared_gradient(std::size_t unit) const {
  const std::vector<std::size_t>& parameters = grouping_.units[unit].parameters;
  if (parameters.empty() || !IsOfSharedHeads(parameters_[parameters.front()].kind)) return {};
  const ElementRange own =
      OwnRangeOf(grouping_.units[unit], /*offset=*/0, grouping_.shared_heads, shape_.shard, shape_.shards);
  return own.count > 0 ? units_[unit].own_grad.Slice(0, own.count) : Tensor{};
}

void MemoryLayout::Resolve() {
  for (const auto& [reservation, target] : pending_) *target = arena_.At(reservation);
  pending_.clear();
  all_gradients_ = arena_.Whole(Region::kGradients, shape_.workload.precision.gradients);
  ResolveUnits();
  if (!IsGated(shape_.model.activation)) workspace_.grad_fc = workspace_.grad_ffn;
  for (std::vector<ActivationSlot>& slots : slots_) {
    for (ActivationSlot& slot : slots) {
      if (SharesHead(shape_)) slot.head = slots.front().head;
      if (!shape_.model.shared_norm) continue;
      for (LayerActivations& layer : slot.layers) {
        layer.feed_forward.norm = layer.attention.norm;
        layer.feed_forward.ln = layer.attention.ln;
      }
    }
  }
}

Weight MemoryLayout::Find(ParameterKind kind, std::int64_t layer) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].kind == kind && parameters_[i].layer == layer)
      return {tensors_[i].value, tensors_[i].grad, grouping_.places[i].unit};
  }
  return {};
}

void MemoryLayout::Add(Region region, Tensor& target, DType dtype,
                       std::initializer_list<std::int64_t> shape) {
  pending_.emplace_back(arena_.Reserve(region, dtype, shape), &target);
}

void MemoryLayout::AddMessage(Region region, Tensor& target) {
  Reservation reservation = arena_.Reserve(region, shape_.workload.precision.compute, {shape_.message});
  reservation.tensor = reservation.tensor.Reshape({shape_.rows, shape_.hidden});
  pending_.emplace_back(reservation, &target);
}

// Reserves the region of a state unit by unit.
void MemoryLayout::AddUnits(Region region, State state, const UnitMembers& members) {
  const DType dtype = TypeOfState(shape_.workload.precision, state).value();
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const std::int64_t elements = grouping_.units[u].elements;
    const std::int64_t kept = KeptElements(shape_.plan, units_[u].kind, state, elements);
    if (kept < elements) {
      Add(region, units_[u].*members.own, dtype, {kept});
      continue;
    }
    Reservation whole = arena_.Reserve(region, dtype, {elements});
    AddUnit(whole, u, members);
    whole.tensor.shape[0] = elements / shape_.shards;
    whole.offset += shape_.shard * whole.tensor.Bytes();
    pending_.emplace_back(whole, &(units_[u].*members.own));
  }
}

// Places a unit and its parameters at a reservation, which may be longer.
void MemoryLayout::AddUnit(Reservation at, std::size_t unit, const UnitMembers& members) {
  const ParameterUnit& group = grouping_.units[unit];
  at.tensor.shape[0] = group.elements;
  pending_.emplace_back(at, &(units_[unit].*members.whole));
  for (const std::size_t i : group.parameters) {
    Reservation of_parameter = at;
    of_parameter.offset += grouping_.places[i].offset * SizeOf(at.tensor.dtype);
    Tensor& tensor = of_parameter.tensor;
    tensor.rank = 0;
    for (const std::int64_t dim : parameters_[i].shape) tensor.shape[tensor.rank++] = dim;
    pending_.emplace_back(of_parameter, &(tensors_[i].*members.of_parameter));
  }
}

// Reserves one or two buffers that the units use in turn.
void MemoryLayout::AddUnitBuffer(DType dtype, std::span<const std::size_t> units, const UnitMembers& members,
                                 int count) {
  std::int64_t most = 0;
  for (const std::size_t unit : units) most = std::max(most, grouping_.units[unit].elements);
  const Reservation first = arena_.Reserve(Region::kWorkspace, dtype, {most});
  const Reservation second = count > 1 ? arena_.Reserve(Region::kWorkspace, dtype, {most}) : first;
  for (const std::size_t unit : units)
    AddUnit(units_[unit].buffer == UnitTensors::Buffer::kSecond ? second : first, unit, members);
}

// The gradient of a tied table has a buffer of its own: it is complete only after that of the embedding.
// Where two buffers take turns, so have its parameters, which the output layer reads again.
void MemoryLayout::AddUnitBuffers() {
  const Precision& precision = shape_.workload.precision;
  std::vector<std::size_t> streamed, tables;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (!IsStreamed(units_[u].kind)) continue;
    const Parameter& first = parameters_[grouping_.units[u].parameters.front()];
    const bool tied = first.kind == ParameterKind::kTokenEmbedding && shape_.model.tied_embeddings;
    (tied ? tables : streamed).push_back(u);
    units_[u].buffer = tied         ? UnitTensors::Buffer::kOwn
                       : u % 2 == 0 ? UnitTensors::Buffer::kFirst
                                    : UnitTensors::Buffer::kSecond;
  }
  if (ShardsGradients(shape_.plan)) {
    AddUnitBuffer(precision.gradients, streamed, kGradients, OverlapsGradients(shape_.plan) ? 2 : 1);
    if (!tables.empty()) AddUnitBuffer(precision.gradients, tables, kGradients, 1);
  }
  if (!ShardsParameters(shape_.plan)) return;
  if (OverlapsParameters(shape_.plan)) {
    AddUnitBuffer(precision.parameters, streamed, kValues, 2);
    if (!tables.empty()) AddUnitBuffer(precision.parameters, tables, kValues, 1);
  } else {
    streamed.insert(streamed.end(), tables.begin(), tables.end());
    AddUnitBuffer(precision.parameters, streamed, kValues, 1);
  }
}

// Reserves a state of the optimizer, which a rank has of its part of each unit.
void MemoryLayout::AddOptimizerState(State state, Tensor ParameterTensors::*member) {
  const DType dtype = TypeOfState(shape_.workload.precision, state).value();
  for (const ParameterUnit& unit : grouping_.units) {
    const std::int64_t part = KeptElements(shape_.plan, unit.kind, state, unit.elements);
    const Reservation own = arena_.Reserve(Region::kOptimizer, dtype, {part});
    for (const std::size_t i : unit.parameters) {
      const ElementRange& range = tensors_[i].own;
      if (range.count == 0) continue;
      Reservation of_parameter = own;
      of_parameter.offset += (grouping_.places[i].offset + range.first - part * shape_.shard) * SizeOf(dtype);
      of_parameter.tensor.shape[0] = range.count;
      pending_.emplace_back(of_parameter, &(tensors_[i].*member));
    }
  }
}

void MemoryLayout::ResolveUnits() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const UnitPlace& place = grouping_.places[i];
    const UnitTensors& unit = units_[place.unit];
    ParameterTensors& t = tensors_[i];
    const std::int64_t part = grouping_.units[place.unit].elements / shape_.shards;
    if (t.own.count > 0) {
      const std::int64_t first = place.offset + t.own.first - part * shape_.shard;
      t.own_value = unit.own_value.Slice(first, t.own.count);
      t.own_grad = unit.own_grad.Slice(first, t.own.count);
    }
    const bool keeps_part = IsSharded(shape_.plan, unit.kind, State::kParameters);
    t.kept = keeps_part ? t.own : ElementRange{0, t.value.Elements()};
    t.kept_value = keeps_part ? t.own_value : t.value.Slice(0, t.kept.count);
    if (parameters_[i].kind == ParameterKind::kTokenEmbedding) own_wte_gradient_ = unit.own_grad;
  }
}

void MemoryLayout::AddNorm(Region region, NormStatistics& statistics) {
  const DType stat = shape_.workload.precision.statistics;
  if (HasMean(shape_.model.norm)) Add(region, statistics.mean, stat, {shape_.rows});
  Add(region, statistics.rstd, stat, {shape_.rows});
}

void MemoryLayout::AddLayer(LayerActivations& a, bool recomputes_all) {
  auto shared = recomputed_.begin();
  for (const LayerTensor& t : LayerTensors(shape_, a)) {
    pending_.emplace_back(recomputes_all || t.recomputed
                              ? *shared
                              : arena_.Reserve(Region::kActivations, t.type, std::span(t.shape)),
                          t.tensor);
    ++shared;
  }
}

void MemoryLayout::AddSlot(const StageShape& chunk, ActivationSlot& slot) {
  const RankShape& s = shape_;
  const DType e = s.workload.precision.compute;
  constexpr Region kRegion = Region::kActivations;
  if (chunk.first) Add(kRegion, slot.tokens, DType::kI32, {s.tokens});
  if (chunk.first && s.model.embedding_norm) {
    Add(kRegion, slot.embedded, e, {s.rows, s.hidden});
    AddNorm(kRegion, slot.embedding_norm);
  }
  slot.layers.resize(static_cast<std::size_t>(chunk.layers.count));
  for (std::size_t l = 0; l < slot.layers.size(); ++l) {
    Tensor& x = slot.layers[l].x;
    if (l == 0 && (!chunk.first || SplitsBackward(s.plan))) {
      AddMessage(kRegion, x);
    } else {
      Add(kRegion, x, e, {s.rows, s.hidden});
    }
    AddLayer(slot.layers[l], static_cast<std::int64_t>(l) < chunk.recomputed);
  }
  if (chunk.last && !SharesHead(s)) AddHead(slot.head);
}

void MemoryLayout::AddHead(HeadActivations& head) {
  const RankShape& s = shape_;
  const DType e = s.workload.precision.compute;
  const DType stat = s.workload.precision.statistics;
  constexpr Region kRegion = Region::kActivations;
  Add(kRegion, head.x_final, e, {s.rows, s.hidden});
  AddNorm(kRegion, head.norm);
  Add(kRegion, head.ln, e, {s.rows, s.hidden});
  Add(kRegion, head.logits, e, {s.tokens, s.vocab});
  if (SplitsLayers(s.plan)) {
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
    const Reservation grad = arena_.Reserve(kRegion, e, {s.rows, s.hidden});
    for (Tensor& target : grads_) pending_.emplace_back(grad, &target);
  }
  Add(kRegion, workspace_.whole, e, {s.tokens, s.hidden});
  if (SplitsSequence(s.plan) && TensorChunks(s.plan) > 1)
    Add(kRegion, workspace_.reduced, e, {s.rows, s.hidden});
  const bool norms_outputs = NormsOutputs(s.model.norm_placement);
  if (s.model.residual_scale != 1 || norms_outputs)
    Add(kRegion, workspace_.grad_block, e, {s.rows, s.hidden});
  Add(kRegion, workspace_.grad_qkv, e, {s.tokens, s.qkv});
  Add(kRegion, workspace_.grad_attn, e, {s.tokens, s.attention});
  Add(kRegion, workspace_.grad_ffn, e, {s.tokens, s.ffn});
  if (IsGated(s.model.activation)) Add(kRegion, workspace_.grad_fc, e, {s.tokens, s.fc});
  if (s.kv_replicas > 1) Add(kRegion, workspace_.key_value, e, {s.tokens, s.qkv - s.attention});
  if (IsUnfused(s.plan)) {
    Add(kRegion, workspace_.dscores, e, {s.micro_batch, s.heads, s.seq_len, s.seq_len});
  } else {
    Add(kRegion, workspace_.attention, s.workload.precision.statistics,
        {AttentionWorkspaceElements(s.seq_len, s.head_dim)});
  }
  if (s.model.qk_norm == QkNorm::kFull) {
    Add(kRegion, workspace_.qk_products, s.workload.precision.statistics,
        {s.tokens, QkNormStatistics(s.model, s)});
  }
  LayerActivations layer;
  for (const LayerTensor& t : LayerTensors(s, layer)) {
    const bool recomputed = AnyRecomputes(s) || t.recomputed;
    recomputed_.push_back(recomputed ? arena_.Reserve(kRegion, t.type, std::span(t.shape)) : Reservation{});
  }
  if (SplitsBackward(s.plan) && !norms_outputs) {
    Add(kRegion, workspace_.next_grad, e, {s.rows, s.hidden});
    AddMessage(kRegion, workspace_.input_grad);
  }
  Add(kRegion, workspace_.scalars, DType::kF64, {kStepScalars});
  AddUnitBuffers();
}

void MemoryLayout::AddCommunication() {
  const RankShape& s = shape_;
  constexpr Region kRegion = Region::kCommunication;
  if (s.plan.pp > 1) {
    for (Tensor& grad : grads_) AddMessage(kRegion, grad);
    if (SendsOutput(s)) {
      for (Tensor& output : outputs_) AddMessage(kRegion, output);
    }
  }
  const std::pair<CommGroup, Tensor*> groups[] = {
      {CommGroup::kTensor, &staging_.tensor},   {CommGroup::kKvReplica, &staging_.kv_replica},
      {CommGroup::kData, &staging_.data},       {CommGroup::kShard, &staging_.shard},
      {CommGroup::kReplica, &staging_.replica}, {CommGroup::kEmbedding, &staging_.embedding},
      {CommGroup::kWorld, &staging_.world}};
  for (const auto& [group, target] : groups) {
    if (GroupRanks(s, group).empty()) continue;
    Add(kRegion, *target, DType::kI32, {kCollectiveStagingBytes / SizeOf(DType::kI32)});
  }
}

}  // namespace autocfg::trainer
