// Biases and residuals; see Ops. T: float, double. Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

template <typename T>
void BiasAdd(std::int64_t rows, std::int64_t width, T* y, const T* bias);

template <typename T>
void BiasResidual(std::int64_t rows, std::int64_t width, T* y, const T* bias, const T* residual);

template <typename T>
void BiasGradient(std::int64_t rows, std::int64_t width, const T* dy, T* dbias);

// y[i] += residual[i].
template <typename T>
void ResidualAdd(std::int64_t elements, T* y, const T* residual);

}  // namespace autocfg::cpu
