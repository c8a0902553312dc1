// The ops on whole tensors at the end of a step: sums of squares and AdamW; see Ops. T: float, double. Pure
// functions.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace autocfg::cpu {

template <typename T>
double SumOfSquares(std::int64_t n, const T* x);

template <typename T>
void AdamW(std::int64_t n, T* param, const T* grad, T* m, T* v, double weight_decay, double grad_scale,
           const AdamWParams& params);

}  // namespace autocfg::cpu
