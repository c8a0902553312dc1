// Every tensor of a rank, reserved in the arena in the order of docs/engine.md. Construct, commit the arena,
// Resolve, then use the tensors: they are views and never change. One rank, one thread. The arena must
// outlive the layout.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/arena.h"
#include "trainer/model/parameters.h"
#include "trainer/model/rank_shape.h"

namespace autocfg {

struct ParameterTensors {
  Tensor value, grad, m, v;
};

// What one layer keeps of one microbatch.
struct LayerActivations {
  Tensor x, mean1, rstd1, ln1, qkv, lse, attn, mid, mean2, rstd2, ln2, fc, gelu;
};

// What the output layer keeps of one microbatch.
struct HeadActivations {
  Tensor x_final, mean, rstd, ln, logits, max, sums, targets;
};

struct ActivationSlot {
  Tensor tokens;  // first stage
  std::vector<LayerActivations> layers;
  HeadActivations head;  // last stage
};

struct Workspace {
  Tensor grad_b, grad_qkv, grad_attn, grad_ffn, attention;
  LayerActivations recompute;  // with full recomputation; x unused
  Tensor scalars;
};

// Staging for the collectives of each group that the rank is in; no memory where the group has one rank.
struct GroupStaging {
  Tensor tensor, data, embedding, world;
};

class MemoryLayout {
 public:
  // Reserves everything. `slots`: microbatches in flight at most (MaxInFlight). Requires: `arena` is empty
  // and not committed.
  MemoryLayout(const RankShape& shape, int slots, Arena& arena);
  MemoryLayout(const MemoryLayout&) = delete;
  MemoryLayout& operator=(const MemoryLayout&) = delete;

  // Turns the reservations into tensors. Requires: the arena is committed.
  void Resolve();

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<ParameterTensors>& parameter_tensors() const { return tensors_; }
  const Tensor& all_gradients() const { return all_gradients_; }  // flat, the whole region
  const std::vector<ActivationSlot>& slots() const { return slots_; }
  const Workspace& workspace() const { return workspace_; }
  const GroupStaging& staging() const { return staging_; }

  // Bytes of one slot.
  std::int64_t slot_bytes() const { return slot_bytes_; }

  // The gradient of the residual stream for the j-th backward of a step, and the output of the forward of
  // microbatch k (not on the last stage).
  const Tensor& grad(std::int64_t j) const { return grads_[j % 2]; }
  const Tensor& output(std::int64_t k) const { return outputs_[k % 2]; }

 private:
  void Add(Region region, Tensor& target, DType dtype, std::initializer_list<std::int64_t> shape);
  void AddLayerOutputs(Region region, LayerActivations& a);  // all but x
  void AddParameters(Region region, DType dtype, Tensor ParameterTensors::*member);
  void AddSlot(ActivationSlot& slot);
  void AddWorkspace();
  void AddCommunication();

  RankShape shape_;
  Arena& arena_;
  std::vector<Parameter> parameters_;
  std::vector<ParameterTensors> tensors_;
  Tensor all_gradients_;
  std::vector<ActivationSlot> slots_;
  Workspace workspace_;
  GroupStaging staging_;
  std::array<Tensor, 2> grads_;
  std::array<Tensor, 2> outputs_;
  std::int64_t slot_bytes_ = 0;
  std::vector<std::pair<Reservation, Tensor*>> pending_;
};

}  // namespace autocfg
