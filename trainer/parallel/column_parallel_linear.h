// A linear layer whose columns are split over the tensor group (Shoeybi et al. 2019): each rank has all of
// the input and its part of the output, with its part of the bias.
#pragma once

#include "trainer/parallel/execution.h"
#include "trainer/parallel/linear_parameters.h"

namespace autocfg {

// y[T, out/tp] = x[T, in] W, plus bias (where there is one).
void ColumnParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& y);

// The same into pre[T, out/tp], and y = the activation of it: as wide as pre, or half where it is gated.
void ColumnParallelActivationForward(const Execution& run, Activation activation, const LinearParameters& p,
                                     const Tensor& x, const Tensor& pre, const Tensor& y);

// The bias gradient and dW accumulate; dx[T, in] = dy W^T, summed over the tensor group.
void ColumnParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x,
                            const Tensor& dy, const Tensor& dx);

}  // namespace autocfg
