// LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019) over the rows of x[rows, width], forward and
// backward; see Ops. y, dy and dx have the shape of x; gamma, beta, dgamma and dbeta are [width]; mean and
// rstd are [rows], written by the forward and read by the backward. T is float or __nv_bfloat16, computed and
// accumulated in float. Issued on the stream.
//
// Supports any width; rows whose width and addresses are multiples of 16 bytes are accessed in 16-byte packs.
// Memory traffic is given in units of rows width sizeof(T) bytes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/scratch.h"

namespace autocfg::cuda {

// y = (x - mean) rstd gamma + beta, with rstd = 1 / sqrt(variance + eps). Memory traffic: 2. x is read once,
// up to a width of 32768 (bf16) or 16384 (fp32).
template <typename T>
void LayerNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, const T* beta,
                      float eps, T* y, float* mean, float* rstd, cudaStream_t stream);

// dx =, or += if `add`; dx may alias dy if not `add`. dgamma, dbeta (=, or += if `accumulate`); the order of
// their sums depends only on the shape and the GPU's model. Memory traffic: 3, 4 if `add`, up to a width of
// 16384 (bf16) or 8192 (fp32); plus partial sums, at most 16 bytes per element of every fourth row.
template <typename T, typename S>
void LayerNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                       const float* mean, const float* rstd, T* dx, bool add, S* dgamma, S* dbeta,
                       bool accumulate, Scratch& scratch, cudaStream_t stream);

// y = x rstd gamma, with rstd = 1 / sqrt(mean of x^2 + eps). Memory traffic as of LayerNormForward.
template <typename T>
void RmsNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, float eps, T* y,
                    float* rstd, cudaStream_t stream);

// As LayerNormBackward, without mean and dbeta; the partial sums are at most 8 bytes per element of every
// fourth row.
template <typename T, typename S>
void RmsNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                     const float* rstd, T* dx, bool add, S* dgamma, bool accumulate, Scratch& scratch,
                     cudaStream_t stream);

}  // namespace autocfg::cuda
