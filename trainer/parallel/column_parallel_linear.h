// A linear layer whose columns are split over the tensor group (Shoeybi et al. 2019): each rank has the whole
// input and its part of the output and the bias.
#pragma once

#include "trainer/layout/linear_parameters.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Computes y[T, out/tp] = x[T, in] W, plus the bias if there is one.
void ColumnParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& y);

// Computes the same into pre[T, out/tp], and y = activation(pre). y is as wide as pre, or half as wide if the
// activation is gated.
void ColumnParallelActivationForward(const Execution& run, Activation activation, const LinearParameters& p,
                                     const Tensor& x, const Tensor& pre, const Tensor& y);

// Accumulates the bias gradient and dW. Computes dx[T, in] = dy W^T, summed over the tensor group.
void ColumnParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x,
                            const Tensor& dy, const Tensor& dx);

}  // namespace autocfg::trainer
