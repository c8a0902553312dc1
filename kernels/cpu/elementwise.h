// What is added or applied to each element of rows: biases, residuals and activations; and the gradient of a
// bias. See Ops and search/ops/activation.h. Matrices are [rows, width] unless a comment says otherwise.
// T: float, double; sums are accumulated in T. Pure functions.
#pragma once

#include <cstdint>

#include "search/ops/activation.h"

namespace autocfg::cpu {

// y += bias[width].
template <typename T>
void BiasAdd(std::int64_t rows, std::int64_t width, T* y, const T* bias);

// y += bias[width] + residual.
template <typename T>
void BiasResidual(std::int64_t rows, std::int64_t width, T* y, const T* bias, const T* residual);

// dbias[width] += column sums of dy.
template <typename T>
void BiasGradient(std::int64_t rows, std::int64_t width, const T* dy, T* dbias);

// y[elements] += residual[elements].
template <typename T>
void ResidualAdd(std::int64_t elements, T* y, const T* residual);

// y[elements] = x[elements] * factor. y may be x.
template <typename T>
void Scale(std::int64_t elements, const T* x, T factor, T* y);

// to[r, 0..width) = from[r, 0..width), of rows that are `from_stride` and `to_stride` elements apart.
template <typename T>
void CopyColumns(std::int64_t rows, std::int64_t width, const T* from, std::int64_t from_stride, T* to,
                 std::int64_t to_stride);

// Computes y from x, which is twice as wide as y if the activation is gated. `bias` has the width of x, or is
// null. With a bias, x becomes x + bias. Throws std::invalid_argument for an unknown activation.
template <typename T>
void ActivationForward(Activation activation, std::int64_t rows, std::int64_t width, T* x, const T* bias,
                       T* y);

// dx = the gradient with respect to x, with the width of x; may alias dy if not gated. x is what the forward
// left, with its bias. Throws like ActivationForward.
template <typename T>
void ActivationBackward(Activation activation, std::int64_t rows, std::int64_t width, const T* x, const T* dy,
                        T* dx);

}  // namespace autocfg::cpu
