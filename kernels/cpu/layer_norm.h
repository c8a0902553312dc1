// LayerNorm over rows (Ba et al. 2016), forward and backward; see Ops. T: float, double. Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

template <typename T>
void LayerNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, const T* beta, T eps,
                      T* y, T* mean, T* rstd);

// dgamma and dbeta accumulate; dx accumulates if `add` is set.
template <typename T>
void LayerNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                       const T* mean, const T* rstd, T* dx, bool add, T* dgamma, T* dbeta);

}  // namespace autocfg::cpu
