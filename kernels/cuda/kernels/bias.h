// Biases, residuals and positions added to rows; see Ops. T is float or __nv_bfloat16; sums are computed in
// float and rounded once. Issued on the stream. One pass: each element of y (and of the residual) is read
// once and y is written once; the bias stays in registers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace autocfg::cuda {

// y[rows, width] += bias[width]. Memory traffic: 2 rows width sizeof(T) bytes. Also adds position embeddings,
// with the batch as rows, and residuals, with one row.
template <typename T>
void BiasAdd(std::int64_t rows, std::int64_t width, T* y, const T* bias, cudaStream_t stream);

// y[rows, width] += bias[width] + residual[rows, width]. Memory traffic: 3 rows width sizeof(T) bytes.
template <typename T>
void BiasResidual(std::int64_t rows, std::int64_t width, T* y, const T* bias, const T* residual,
                  cudaStream_t stream);

}  // namespace autocfg::cuda
