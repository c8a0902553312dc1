// The ops that our own kernels compute on a GPU: all but matrix products and attention. Checks types, then
// launches the kernels on the stream. Supports fp32 and bf16; statistics, gradients of parameters and the
// optimizer's tensors are fp32 in both. Fill supports fp64 too: losses and norms. One rank, one thread. All
// ops are issued on one stream, because they share scratch memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>

#include "kernels/cuda/device/scratch.h"
#include "kernels/op_call.h"
#include "kernels/op_operands.h"

namespace autocfg::cuda {

void RunKernelOp(const OpCall& call, Scratch& scratch, cudaStream_t stream);

// Runs `body.operator()<T>()` for the element type of the op: float or __nv_bfloat16. Throws
// std::invalid_argument for any other type, and if statistics are not fp32.
template <typename Body>
void Dispatch(const OpCall& call, Body body) {
  const OpDesc& op = call.desc;
  std::size_t i = 0;
  for (const Operand& operand : OperandsOf(op)) {
    const Tensor& t = call[i++];
    if (operand.kind != OperandKind::kStatistics || !operand.IsIn(op) || t.dtype == DType::kF32) continue;
    throw std::invalid_argument(
        fmt::format("{}: the cuda device keeps statistics in fp32, not {}", Name(op.kind), Name(t.dtype)));
  }
  if (op.dtype == DType::kF32) return body.template operator()<float>();
  if (op.dtype == DType::kBF16) return body.template operator()<__nv_bfloat16>();
  throw std::invalid_argument(
      fmt::format("{}: the cuda device runs fp32 and bf16, not {}", Name(op.kind), Name(op.dtype)));
}

}  // namespace autocfg::cuda
