// Biases, residuals and the GELU between two linear layers; see Ops. T: float, double. Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

template <typename T>
void BiasAdd(std::int64_t rows, std::int64_t width, T* y, const T* bias);

template <typename T>
void BiasResidual(std::int64_t rows, std::int64_t width, T* y, const T* bias, const T* residual);

template <typename T>
void BiasGradient(std::int64_t rows, std::int64_t width, const T* dy, T* dbias);

template <typename T>
void BiasGelu(std::int64_t rows, std::int64_t width, T* x, const T* bias, T* y);

template <typename T>
void GeluBackward(std::int64_t elements, const T* x, T* dy);

}  // namespace autocfg::cpu
