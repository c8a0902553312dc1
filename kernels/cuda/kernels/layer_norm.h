// LayerNorm over rows (Ba et al. 2016), forward and backward; see Ops. T is float or __nv_bfloat16, computed
// in float. Issued on the stream. Supports any width; rows whose width and addresses are multiples of 16
// bytes are accessed in 16-byte packs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/scratch.h"

namespace autocfg::cuda {

// Memory traffic: 2 rows width sizeof(T) bytes. x is read once, up to a width of 32768 (bf16) or 16384
// (fp32).
template <typename T>
void LayerNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, const T* beta,
                      float eps, T* y, float* mean, float* rstd, cudaStream_t stream);

// dx =, or += if `add`; dx may alias dy if not `add`. dgamma, dbeta +=; the order of their sums depends only
// on the shape and the GPU's model. Memory traffic: 3 rows width sizeof(T) bytes, 4 if `add`, up to a width
// of 16384 (bf16) or 8192 (fp32); plus partial sums, at most 16 bytes per element of every fourth row.
template <typename T>
void LayerNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                       const float* mean, const float* rstd, T* dx, bool add, float* dgamma, float* dbeta,
                       Scratch& scratch, cudaStream_t stream);

}  // namespace autocfg::cuda
