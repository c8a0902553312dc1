// LayerNorm over rows (Ba et al. 2016), forward and backward; see Ops. T is float or __nv_bfloat16, computed
// in float. Issued on the stream. Any width; rows whose width and addresses are multiples of 16 bytes are
// accessed in such packs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/scratch.h"

namespace autocfg::cuda {

// Moves 2 rows width sizeof(T) bytes: x is read once, up to a width of 32768 (bf16) or 16384 (fp32).
template <typename T>
void LayerNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, const T* beta,
                      float eps, T* y, float* mean, float* rstd, cudaStream_t stream);

// dx = or, where `add`, +=; it may be dy where not. dgamma, dbeta +=; the order in which they are summed
// depends on the shape and the GPU's model alone. Moves 3 rows width sizeof(T) bytes, 4 where `add`, up to a
// width of 16384 (bf16) or 8192 (fp32), and partial sums, at most 16 bytes an element of every fourth row.
template <typename T>
void LayerNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                       const float* mean, const float* rstd, T* dx, bool add, float* dgamma, float* dbeta,
                       Scratch& scratch, cudaStream_t stream);

}  // namespace autocfg::cuda
