// One op on its own scratch tensors, ready to run repeatedly. One rank, one thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/arena.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "search/ops/op_desc.h"

namespace autocfg::trainer {

class ScratchOp {
 public:
  // Allocates tensors for a compute op, or the buffer of a communication op, and fills them with ordinary
  // values. Results stay finite however often a compute op runs on them. Throws BadInput if the sizes are
  // invalid for the op or the op is supported in predictions only, and DeviceOutOfMemory.
  ScratchOp(const OpDesc& op, Device& device, Ops& ops, Stream& stream);
  ScratchOp(const ScratchOp&) = delete;
  ScratchOp& operator=(const ScratchOp&) = delete;

  // Runs a compute op once.
  void Run() { run_(); }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor& buffer() const { return tensors_[0]; }  // communication ops

 private:
  // Reserves a tensor. Its elements are `value` plus or minus `spread`; token ids lie in [0, spread).
  void Add(DType dtype, std::initializer_list<std::int64_t> shape, double value, double spread);
  void FillTensors();
  void Prepare(const OpDesc& op);
  void PrepareMatmul(const OpDesc& op);
  void PrepareEpilogue(const OpDesc& op);
  void PrepareNorm(const OpDesc& op);
  void PrepareRmsNorm(const OpDesc& op);
  void PrepareRows(const OpDesc& op);
  void PrepareActivation(const OpDesc& op);
  void PrepareRope(const OpDesc& op);
  void PrepareAttention(const OpDesc& op);
  void PrepareEmbedding(const OpDesc& op);
  void PrepareCrossEntropy(const OpDesc& op);
  void PrepareFlat(const OpDesc& op);

  struct Fill {
    double value = 0;
    double spread = 0;
  };

  Device& device_;
  Ops& ops_;
  Stream& stream_;
  Arena arena_;
  std::vector<Reservation> reservations_;
  std::vector<Tensor> tensors_;
  std::vector<Fill> fills_;
  std::function<void()> run_;
};

}  // namespace autocfg::trainer
