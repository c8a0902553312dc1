// All tensors of a rank, reserved in the arena in the order of docs/engine.md. Construct the layout, commit
// the arena, call Resolve, then use the tensors. They are views that never change, but for those that input
// gradients exchange: activation slots, gradients of the workspace and grad(j). One rank, one thread. The
// arena must outlive the layout.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/arena.h"
#include "trainer/layout/layer_activations.h"
#include "trainer/layout/parameter_units.h"
#include "trainer/layout/parameters.h"
#include "trainer/layout/rank_shape.h"

namespace autocfg::trainer {

// A weight with its gradient. Absent (tensors of rank 0) if the model has no such parameter.
struct Weight {
  Tensor value, grad;
  std::size_t unit = 0;  // that it lies in

  bool present() const { return value.rank > 0; }
};

struct LinearParameters {
  Weight weight;  // [in, out], the rank's part
  Weight bias;    // [out], the rank's part; absent in a model without biases
};

struct ParameterTensors {
  // All elements, where ops use them. With sharded gradients or parameters these are buffers, which other
  // units use too (trainer/parallel/unit_exchange.h).
  Tensor value, grad;
  ElementRange own;  // the elements whose states this rank has
  // Of those elements, flat; absent if there are none.
  Tensor own_value, own_grad;
  Tensor master;  // absent also if the precision has no master weights
  Tensor m, v;    // moments; absent if the optimizer does not have them
  // The elements that the rank keeps from step to step: all of them unless parameters are sharded.
  ElementRange kept;
  Tensor kept_value;  // flat
};

// The tensors of a unit (parameter_units.h), flat. Those of all elements as in ParameterTensors.
struct UnitTensors {
  UnitKind kind = UnitKind::kNorms;
  Tensor value, grad;
  Tensor own_value, own_grad;  // the part whose states this rank has
  // Of a pair of buffers that units use in turn (grad_overlap, param_overlap), which one this unit uses. A
  // tied table has buffers of its own.
  enum class Buffer : std::uint8_t { kFirst, kSecond, kOwn } buffer = Buffer::kFirst;
};

// Activations that the output layer stores for one microbatch.
struct HeadActivations {
  Tensor x_final;
  NormStatistics norm;
  Tensor ln, logits;
  Tensor max, sums;  // if the vocabulary is split
  Tensor targets;
};

// Activations that a stage stores for one microbatch.
struct ActivationSlot {
  Tensor tokens;    // first stage
  Tensor embedded;  // first stage, with a norm of the embeddings: what it reads
  NormStatistics embedding_norm;
  std::vector<LayerActivations> layers;
  HeadActivations head;  // last stage
};

struct Workspace {
  // [T,H]: hidden values of all tokens. Under sequence parallelism: those gathered from the tensor group, or
  // sums to scatter over it. Otherwise the gradient of the input of a column-parallel layer.
  Tensor whole;
  // [R,H], if sums of chunks are scattered (tp_overlap under sequence parallelism): the own rows of the
  // gradient of the input of a column-parallel layer. Otherwise they lie in `whole`.
  Tensor reduced;
  // [R,H], with scaled residuals or norms on outputs: the gradient of a block's product. Input gradients
  // exchange it for out1 and out2 of slots.
  Tensor grad_block;
  Tensor grad_qkv, grad_attn, grad_ffn;
  Tensor grad_fc;      // same memory as grad_ffn if the activation is not gated
  Tensor key_value;    // where ranks share key-value heads: k and v apart from q, or their gradient
  Tensor attention;    // fused attention
  Tensor dscores;      // unfused attention
  Tensor qk_products;  // norms over all heads: sums of their backward, [T,2]
  // If the schedule splits backwards, without norms on outputs: the next gradient of the residual stream,
  // [R,H], and the gradient of the stage's input, in a buffer like grad(j). Input gradients exchange them,
  // and in any case grad_qkv and grad_fc, for tensors of slots (trainer/model/transformer_layer.h).
  Tensor next_grad, input_grad;
  Tensor scalars;  // [2] kF64
};

// Returns [1] kF64: the loss summed over the tokens of the rank's microbatches.
inline Tensor LossScalar(const Workspace& workspace) {
  Tensor t = workspace.scalars;
  t.shape[0] = 1;
  return t;
}

// Returns [1] kF64: the sum of squares of the gradients that the rank counts.
inline Tensor SquaredNormScalar(const Workspace& workspace) {
  Tensor t = LossScalar(workspace);
  if (t.data != nullptr) t.data = t.As<double>() + 1;
  return t;
}

// Staging for the collectives of each group of the rank; no memory for groups of one rank.
struct GroupStaging {
  Tensor tensor, kv_replica, data, shard, replica, embedding, world;
};

class MemoryLayout {
 public:
  // Reserves all tensors. `slots`: by chunk, how many activation slots it has (ActivationSlots).
  // Requires that `arena` is empty and not committed.
  MemoryLayout(const RankShape& shape, std::span<const int> slots, Arena& arena);
  MemoryLayout(const MemoryLayout&) = delete;
  MemoryLayout& operator=(const MemoryLayout&) = delete;

  // Turns the reservations into tensors. Requires a committed arena.
  void Resolve();

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<ParameterTensors>& parameter_tensors() const { return tensors_; }
  const std::vector<UnitTensors>& units() const { return units_; }
  std::size_t unit_of(std::size_t parameter) const { return grouping_.places[parameter].unit; }
  const Tensor& all_gradients() const { return all_gradients_; }  // flat, the whole region
  // The gradients of norms that are summed over the tensor group (SumsNormGradients), flat.
  Tensor summed_norm_gradients() const;
  // The rank's own part of the gradients of a unit that are of key-value heads which ranks share, flat;
  // absent if it has none.
  Tensor own_shared_gradient(std::size_t unit) const;
  const Tensor& own_wte_gradient() const { return own_wte_gradient_; }  // flat; absent without a table
  const Workspace& workspace() const { return workspace_; }
  Workspace& workspace() { return workspace_; }
  const GroupStaging& staging() const { return staging_; }

  // Returns a parameter of the rank (`layer` counts within the model), or an absent Weight if the rank has
  // none of that kind.
  Weight Find(ParameterKind kind, std::int64_t layer = kNoLayer) const;

  // The slots of a chunk, and the size of one slot in bytes, without tensors that slots share.
  const std::vector<ActivationSlot>& slots(std::size_t chunk) const { return slots_.at(chunk); }
  std::vector<ActivationSlot>& slots(std::size_t chunk) { return slots_.at(chunk); }
  std::int64_t slot_bytes(std::size_t chunk) const { return slot_bytes_.at(chunk); }

  // grad(j): gradient of the residual stream for the rank's j-th backward of a step. output(i): output of the
  // rank's i-th forward that sends its output.
  const Tensor& grad(std::int64_t j) const { return grads_[static_cast<std::size_t>(j) % grads_.size()]; }
  Tensor& grad(std::int64_t j) { return grads_[static_cast<std::size_t>(j) % grads_.size()]; }
  const Tensor& output(std::int64_t i) const { return outputs_[i % 2]; }

 private:
  void Add(Region region, Tensor& target, DType dtype, std::initializer_list<std::int64_t> shape);
  void AddMessage(Region region, Tensor& target);  // [R,H], with room for the parts of the tensor group
  void AddNorm(Region region, NormStatistics& statistics);
  // The tensors of a region whose elements are those of the units.
  struct UnitMembers {
    Tensor ParameterTensors::*of_parameter;
    Tensor UnitTensors::*whole;
    Tensor UnitTensors::*own;
  };
  void AddUnits(Region region, State state, const UnitMembers& members);
  void AddUnit(Reservation at, std::size_t unit, const UnitMembers& members);
  void AddUnitBuffer(DType dtype, std::span<const std::size_t> units, const UnitMembers& members, int count);
  void AddUnitBuffers();
  void AddOptimizerState(State state, Tensor ParameterTensors::*member);
  void ResolveUnits();
  // Adds all tensors of a layer but x; those that it recomputes are the rank's.
  void AddLayer(LayerActivations& a, bool recomputes_all);
  void AddSlot(const StageShape& chunk, ActivationSlot& slot);
  void AddHead(HeadActivations& head);
  void AddWorkspace();
  void AddCommunication();

  RankShape shape_;
  Arena& arena_;
  std::vector<Parameter> parameters_;
  ParameterUnits grouping_;
  std::vector<ParameterTensors> tensors_;
  std::vector<UnitTensors> units_;
  Tensor all_gradients_, own_wte_gradient_;
  static constexpr UnitMembers kValues{&ParameterTensors::value, &UnitTensors::value,
                                       &UnitTensors::own_value};
  static constexpr UnitMembers kGradients{&ParameterTensors::grad, &UnitTensors::grad,
                                          &UnitTensors::own_grad};
  std::vector<std::vector<ActivationSlot>> slots_;  // by chunk
  std::vector<std::int64_t> slot_bytes_;
  Workspace workspace_;
  std::vector<Reservation> recomputed_;  // LayerTensors that layers recompute: one set for the rank
  GroupStaging staging_;
  std::vector<Tensor> grads_;  // GradientBuffers of them; one tensor without a pipeline
  std::array<Tensor, 2> outputs_;
  std::vector<std::pair<Reservation, Tensor*>> pending_;
};

}  // namespace autocfg::trainer
