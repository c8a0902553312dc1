// The Ops of a GPU: matrix products by cuBLASLt, attention by cuDNN or by our own kernel, all else by our own
// kernels. fp32 and bf16. The process's environment chooses among equals: AUTOCFG_ATTENTION
// (attention_choice.h), AUTOCFG_MATMUL (matmul.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/op_choice.h"
#include "kernels/ops.h"

namespace autocfg::cuda {

// On the calling thread's current GPU. Throws DeviceError.
std::unique_ptr<Ops> CreateCudaOps();
// The same, with so many bytes, at least a MiB, for what the products' library uses beside the operands.
std::unique_ptr<Ops> CreateCudaOpsWithWorkspace(std::int64_t bytes);

// What computes each shape of product and attention that these ops, of CreateCudaOps, have met. Usual is a
// product of cuBLASLt's by the fastest of its algorithms; of attention it is always to be said. Throws
// std::logic_error for ops of another device.
std::vector<OpChoice> ChoicesOf(const Ops& ops);

}  // namespace autocfg::cuda
