// RMSNorm over rows (Zhang & Sennrich 2019), forward and backward; see Ops. T: float, double. Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

template <typename T>
void RmsNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, T eps, T* y, T* rstd);

// dgamma accumulates; dx accumulates if `add` is set.
template <typename T>
void RmsNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                     const T* rstd, T* dx, bool add, T* dgamma);

}  // namespace autocfg::cpu
