// The ops on all parameters at the end of a step, for one tensor of n elements each; see Ops. They compute in
// T: float or double. States have a type of their own, T or Bf16Bits. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"
#include "kernels/ops.h"

namespace autocfg::cpu {

// Returns the sum of x[n]^2, accumulated in double precision. T: also Bf16Bits.
template <typename T>
double SumOfSquares(std::int64_t n, const T* x);

// Update param[n] and its moments by grad[n] (the formulas of Ops::AdamW and Ops::Sgd). `grad_scale` is the
// clip factor; params.clip_norm is not read. `m` of Sgd is null without momentum. A moment enters the update
// before it is rounded to its type.
template <typename T, typename Gradient, typename Moment>
void AdamW(std::int64_t n, T* param, const Gradient* grad, Moment* m, Moment* v, double weight_decay,
           double grad_scale, const UpdateParams& params);
template <typename T, typename Gradient, typename Moment>
void Sgd(std::int64_t n, T* param, const Gradient* grad, Moment* m, double weight_decay, double grad_scale,
         const UpdateParams& params);

}  // namespace autocfg::cpu
