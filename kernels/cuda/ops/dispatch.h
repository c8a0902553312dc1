// Dispatches from the element types of tensors to those of kernels. Pure functions.
#pragma once

#include <cuda_bf16.h>
#include <fmt/format.h>

#include <initializer_list>
#include <stdexcept>

#include "kernels/tensor.h"
#include "search/ops/op_desc.h"

namespace autocfg::cuda {

// Runs `body.operator()<T>()` for the element type of the op: float or __nv_bfloat16. `fp32` are the op's
// statistics and gradients of parameters, which are fp32 for every T. Throws std::invalid_argument for any
// other type.
template <typename Body>
void Dispatch(const OpDesc& op, std::initializer_list<const Tensor*> fp32, Body body) {
  for (const Tensor* t : fp32) {
    if (t->dtype == DType::kF32) continue;
    throw std::invalid_argument(fmt::format(
        "{}: the cuda device keeps statistics, gradients of parameters and optimizer states in fp32, not {}",
        Name(op.kind), Name(t->dtype)));
  }
  if (op.dtype == DType::kF32) return body.template operator()<float>();
  if (op.dtype == DType::kBF16) return body.template operator()<__nv_bfloat16>();
  throw std::invalid_argument(
      fmt::format("{}: the cuda device runs fp32 and bf16, not {}", Name(op.kind), Name(op.dtype)));
}

}  // namespace autocfg::cuda
