// The Ops of a GPU: matrix products by cuBLASLt, attention by cuDNN or our own kernel, all else by our own
// kernels. Supports fp32 and bf16. Environment variables select implementations: AUTOCFG_ATTENTION
// (attention_choice.h), AUTOCFG_MATMUL (matmul.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/op_log.h"
#include "kernels/ops.h"

namespace autocfg::cuda {

// Creates the ops on the calling thread's current GPU. Throws DeviceError.
std::unique_ptr<Ops> CreateCudaOps();
// As CreateCudaOps, with `bytes`, at least a MiB, of workspace for the matrix product library.
std::unique_ptr<Ops> CreateCudaOpsWithWorkspace(std::int64_t bytes);

// Returns the implementation of each product and fused attention that these ops, from CreateCudaOps, have
// run. A product is usual if it uses the fastest of cuBLASLt's algorithms. Attention choices are always
// reported. Throws std::logic_error for ops of another device.
std::vector<OpChoice> ChoicesOf(const Ops& ops);

}  // namespace autocfg::cuda
