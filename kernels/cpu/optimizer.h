// The ops on all parameters at the end of a step, for one tensor of n elements each; see Ops. T: float,
// double. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace autocfg::cpu {

// Returns the sum of x[n]^2, accumulated in double precision.
template <typename T>
double SumOfSquares(std::int64_t n, const T* x);

// Updates param[n], m[n] and v[n], computed in T (Loshchilov & Hutter 2019):
//   g = grad_scale grad;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//   param = param (1 - lr weight_decay) - lr (m / c1) / (sqrt(v / c2) + eps),
// where c1 and c2 are the bias corrections, and 0 / 0 is 0. `grad_scale` is the clip factor; params.clip_norm
// is not read.
template <typename T>
void AdamW(std::int64_t n, T* param, const T* grad, T* m, T* v, double weight_decay, double grad_scale,
           const AdamWParams& params);

}  // namespace autocfg::cpu
