// RMSNorm over rows (Zhang & Sennrich 2019), forward and backward; see Ops. T is float or __nv_bfloat16,
// computed in float. Issued on the stream. Any width; rows whose width and addresses are multiples of 16
// bytes are accessed in such packs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/scratch.h"

namespace autocfg::cuda {

// Moves 2 rows width sizeof(T) bytes: x is read once, up to a width of 32768 (bf16) or 16384 (fp32).
template <typename T>
void RmsNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, float eps, T* y,
                    float* rstd, cudaStream_t stream);

// dx = or, where `add`, +=; it may be dy where not. dgamma +=; the order in which it is summed depends on the
// shape and the GPU's model alone. Moves 3 rows width sizeof(T) bytes, 4 where `add`, up to a width of 16384
// (bf16) or 8192 (fp32), and partial sums, at most 8 bytes an element of every fourth row.
template <typename T>
void RmsNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                     const float* rstd, T* dx, bool add, float* dgamma, Scratch& scratch,
                     cudaStream_t stream);

}  // namespace autocfg::cuda
