// What is set, added or applied to each element of rows: values, biases, residuals, positions and
// activations; see Ops and search/ops/activation.h. T is float or __nv_bfloat16, unless a comment says
// otherwise; computed in float and rounded once. Issued on the stream. One pass: each element is read once
// and written once, and a bias stays in registers. Memory traffic is given in units of rows width sizeof(T)
// bytes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "search/ops/activation.h"

namespace autocfg::cuda {

// y[n] = value. T is float, double or __nv_bfloat16.
template <typename T>
void Fill(std::int64_t n, T value, T* y, cudaStream_t stream);

// y[rows, width] += bias[width]. Memory traffic: 2. Also adds position embeddings, with the batch as rows,
// and residuals, with one row.
template <typename T>
void BiasAdd(std::int64_t rows, std::int64_t width, T* y, const T* bias, cudaStream_t stream);

// y[rows, width] += bias[width] + residual[rows, width]. Memory traffic: 3.
template <typename T>
void BiasResidual(std::int64_t rows, std::int64_t width, T* y, const T* bias, const T* residual,
                  cudaStream_t stream);

// y[n] = x[n] * factor. y may be x. Memory traffic: 2 n sizeof(T).
template <typename T>
void Scale(std::int64_t n, const T* x, float factor, T* y, cudaStream_t stream);

// to[r, 0..width) = from[r, 0..width), of rows that are `from_stride` and `to_stride` elements apart. Memory
// traffic: 2.
template <typename T>
void CopyColumns(std::int64_t rows, std::int64_t width, const T* from, std::int64_t from_stride, T* to,
                 std::int64_t to_stride, cudaStream_t stream);

// Computes y[rows, width] from x[rows, width]; x is twice as wide if gated; y is not x. `bias` has the width
// of x, or is null. With a bias, x becomes x + bias, rounded, and y is computed from the rounded value.
// Memory traffic: 2, gated 3; with a bias 3, gated 5. Throws std::invalid_argument for an unknown activation.
template <typename T>
void ActivationForward(Activation activation, std::int64_t rows, std::int64_t width, T* x, const T* bias,
                       T* y, cudaStream_t stream);

// dx = the gradient with respect to x, given dy[rows, width] and the x that the forward left. dx has the
// width of x and may alias dy if not gated. Memory traffic: 3, gated 5. Throws like ActivationForward.
template <typename T>
void ActivationBackward(Activation activation, std::int64_t rows, std::int64_t width, const T* x, const T* dy,
                        T* dx, cudaStream_t stream);

}  // namespace autocfg::cuda
