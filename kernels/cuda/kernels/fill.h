// y = value. T is float, double or __nv_bfloat16. Issued on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace autocfg::cuda {

template <typename T>
void Fill(std::int64_t n, T value, T* y, cudaStream_t stream);

}  // namespace autocfg::cuda
