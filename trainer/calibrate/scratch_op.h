// One op on its own scratch tensors, ready to run repeatedly. One rank, one thread.
//
// In a step, an op finds in the device's cache what the op before it has just written. Weights, gradients,
// optimizer states and what the forward saved for the backward were last used long ago, and results go to
// memory of their own: the op reads and writes these in memory. So a scratch op has several copies of them,
// together larger than the cache, and takes the next copy at each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
  // invalid for the op, and DeviceOutOfMemory.
  ScratchOp(const OpDesc& op, Device& device, Ops& ops, Stream& stream);
  ScratchOp(const ScratchOp&) = delete;
  ScratchOp& operator=(const ScratchOp&) = delete;

  // Runs a compute op once.
  void Run();

  // Of the next run, in the order of OperandsOf; absent where the op does not have the operand.
  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor& buffer() const { return tensors_[0]; }  // communication ops
  std::size_t copies() const { return copies_.size(); }

 private:
  // Where a step's op finds a tensor.
  enum class Found { kInCache, kInMemory };
  // Elements are `value` plus or minus `spread`; token ids lie in [0, spread).
  struct Contents {
    double value = 0;
    double spread = 0;
    Found found = Found::kInMemory;
  };
  struct Slot {
    Reservation first;  // of the copies; none if the op does not have the operand
    Contents contents;
  };

  // Return what each operand holds, in the order of OperandsOf (kernels/op_operands.h).
  static std::vector<Contents> ContentsOf(const OpDesc& op);
  static std::vector<Contents> ContentsOfMatmul(const OpDesc& op);

  void Reserve();
  std::size_t CopiesNeeded() const;
  void Allocate();
  void FillIds(const Contents& contents, const Tensor& tensor, std::size_t copy);
  void FillNumbers(const Contents& contents, const Tensor& tensor);

  const OpDesc op_;
  Device& device_;
  Ops& ops_;
  Stream& stream_;
  Arena arena_;
  std::vector<Slot> slots_;
  std::int64_t memory_bytes_ = 0;  // that a run reads or writes in memory
  std::vector<std::vector<Tensor>> copies_;
  std::size_t turn_ = 0;
  std::span<const Tensor> tensors_;  // copies_[turn_]
};

}  // namespace autocfg::trainer
