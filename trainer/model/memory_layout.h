// Every tensor of a rank, reserved in the arena in the order of docs/engine.md. Construct, commit the arena,
// Resolve, then use the tensors: they are views and never change. One rank, one thread. The arena must
// outlive the layout.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/arena.h"
#include "trainer/model/parameters.h"
#include "trainer/model/rank_shape.h"
#include "trainer/parallel/linear_parameters.h"

namespace autocfg {

struct ParameterTensors {
  Tensor value, grad;
  Tensor master;  // absent where the precision has no master weights
  Tensor m, v;
};

// What a norm keeps of T tokens; an RMS norm has no mean.
struct NormStatistics {
  Tensor mean, rstd;
};

// What one layer keeps of one microbatch.
struct LayerActivations {
  Tensor x;
  NormStatistics norm1;
  Tensor ln1, qkv, lse, attn, mid;
  NormStatistics norm2;
  Tensor ln2, fc, act;
};

// What the output layer keeps of one microbatch.
struct HeadActivations {
  Tensor x_final;
  NormStatistics norm;
  Tensor ln, logits;
  Tensor max, sums;  // where the vocabulary is split
  Tensor targets;
};

// What a stage keeps of one microbatch.
struct ActivationSlot {
  Tensor tokens;  // first stage
  std::vector<LayerActivations> layers;
  HeadActivations head;  // last stage
};

struct Workspace {
  Tensor grad_b, grad_qkv, grad_attn, grad_ffn;
  Tensor grad_fc;  // grad_ffn again where the activation is not gated
  Tensor attention;
  LayerActivations recompute;  // where a layer of the rank recomputes; x unused
  Tensor scalars;
};

// Staging for the collectives of each group that the rank is in; no memory where the group has one rank.
struct GroupStaging {
  Tensor tensor, data, embedding, world;
};

class MemoryLayout {
 public:
  // Reserves everything. `slots`: by chunk, the microbatches in flight at most (MaxInFlight). Requires:
  // `arena` is empty and not committed.
  MemoryLayout(const RankShape& shape, std::span<const int> slots, Arena& arena);
  MemoryLayout(const MemoryLayout&) = delete;
  MemoryLayout& operator=(const MemoryLayout&) = delete;

  // Turns the reservations into tensors. Requires: the arena is committed.
  void Resolve();

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<ParameterTensors>& parameter_tensors() const { return tensors_; }
  const Tensor& all_gradients() const { return all_gradients_; }  // flat, the whole region
  const Workspace& workspace() const { return workspace_; }
  const GroupStaging& staging() const { return staging_; }

  // A parameter of the rank (`layer` of the model); absent where the rank has none of that kind.
  Weight Find(ParameterKind kind, std::int64_t layer = kNoLayer) const;

  // The slots of a chunk, and the bytes of one of them.
  const std::vector<ActivationSlot>& slots(std::size_t chunk) const { return slots_.at(chunk); }
  std::int64_t slot_bytes(std::size_t chunk) const { return slot_bytes_.at(chunk); }

  // The gradient of the residual stream for the rank's j-th backward of a step, and the output of its i-th
  // forward that sends one.
  const Tensor& grad(std::int64_t j) const { return grads_[j % 2]; }
  const Tensor& output(std::int64_t i) const { return outputs_[i % 2]; }

 private:
  void Add(Region region, Tensor& target, DType dtype, std::initializer_list<std::int64_t> shape);
  void AddNorm(Region region, NormStatistics& statistics);
  void AddLayerOutputs(Region region, LayerActivations& a);  // all but x
  void AddParameters(Region region, DType dtype, Tensor ParameterTensors::*member);
  void AddSlot(const StageShape& chunk, ActivationSlot& slot);
  void AddWorkspace();
  void AddCommunication();

  RankShape shape_;
  Arena& arena_;
  std::vector<Parameter> parameters_;
  std::vector<ParameterTensors> tensors_;
  Tensor all_gradients_;
  std::vector<std::vector<ActivationSlot>> slots_;  // by chunk
  std::vector<std::int64_t> slot_bytes_;
  Workspace workspace_;
  GroupStaging staging_;
  std::array<Tensor, 2> grads_;
  std::array<Tensor, 2> outputs_;
  std::vector<std::pair<Reservation, Tensor*>> pending_;
};

}  // namespace autocfg
