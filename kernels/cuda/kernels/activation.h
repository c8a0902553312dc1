// The activations between the two linear layers of a feed-forward block; see Ops and search/ops/activation.h.
// T is float or __nv_bfloat16, computed in float. Issued on the stream. One pass: each element is read once
// and written once.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "search/ops/activation.h"

namespace autocfg::cuda {

// Computes y[rows, width] from x[rows, width]; x is twice as wide if gated; y is not x. `bias` has the width
// of x, or is null. With a bias, x becomes x + bias, rounded, and y is computed from the rounded value.
// Memory traffic, in units of rows width sizeof(T) bytes: 2, gated 3; with a bias 3, gated 5.
template <typename T>
void ActivationForward(Activation activation, std::int64_t rows, std::int64_t width, T* x, const T* bias,
                       T* y, cudaStream_t stream);

// dx has the width of x and may alias dy if not gated. Memory traffic: 3, gated 5 of the same units.
template <typename T>
void ActivationBackward(Activation activation, std::int64_t rows, std::int64_t width, const T* x, const T* dy,
                        T* dx, cudaStream_t stream);

}  // namespace autocfg::cuda
