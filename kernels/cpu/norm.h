// LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019) over the rows of x[rows, width], forward and
// backward; see Ops. y, dy and dx have the shape of x; gamma, beta, dgamma and dbeta are [width]; mean and
// rstd are [rows], written by the forward and read by the backward. T: float, double; sums are accumulated in
// T. Pure functions.
#pragma once

#include <cstdint>

namespace autocfg::cpu {

// y = (x - mean) rstd gamma + beta, with rstd = 1 / sqrt(variance + eps).
template <typename T>
void LayerNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, const T* beta, T eps,
                      T* y, T* mean, T* rstd);

// dx =, or += if `add`; dx may alias dy if not `add`. dgamma, dbeta +=.
template <typename T>
void LayerNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                       const T* mean, const T* rstd, T* dx, bool add, T* dgamma, T* dbeta);

// y = x rstd gamma, with rstd = 1 / sqrt(mean of x^2 + eps).
template <typename T>
void RmsNormForward(std::int64_t rows, std::int64_t width, const T* x, const T* gamma, T eps, T* y, T* rstd);

// dx =, or += if `add`; dx may alias dy if not `add`. dgamma +=.
template <typename T>
void RmsNormBackward(std::int64_t rows, std::int64_t width, const T* dy, const T* x, const T* gamma,
                     const T* rstd, T* dx, bool add, T* dgamma);

}  // namespace autocfg::cpu
