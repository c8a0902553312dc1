// RMSNorm over rows (Zhang & Sennrich 2019), forward and backward; see Ops. T is float or __nv_bfloat16,
// computed in float. Issued on the stream. Supports any width; rows whose width and addresses are multiples
// of 16 bytes are accessed in 16-byte packs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/scratch.h"

namespace autocfg::cuda {

// Memory traffic: 2 rows width sizeof(T) bytes. x is read once, up to a width of 32768 (bf16) or 16384
// (fp32).
template <typename T>
void RmsNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, float eps, T* y,
                    float* rstd, cudaStream_t stream);

// dx =, or += if `add`; dx may alias dy if not `add`. dgamma +=; the order of its sums depends only on the
// shape and the GPU's model. Memory traffic: 3 rows width sizeof(T) bytes, 4 if `add`, up to a width of 16384
// (bf16) or 8192 (fp32); plus partial sums, at most 8 bytes per element of every fourth row.
template <typename T>
void RmsNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                     const float* rstd, T* dx, bool add, float* dgamma, Scratch& scratch,
                     cudaStream_t stream);

}  // namespace autocfg::cuda
