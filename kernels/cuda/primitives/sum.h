// The last phase of sums over many blocks. Issued on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace autocfg::cuda {

// result[1] += sum of partials[n], in an order that depends only on n.
void AddSum(std::int64_t n, const double* partials, double* result, cudaStream_t stream);

}  // namespace autocfg::cuda
