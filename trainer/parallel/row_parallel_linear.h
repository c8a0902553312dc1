// A linear layer whose rows are split over the tensor group (Shoeybi et al. 2019): each rank has its part of
// the input, and the whole output after a sum over the group. The bias is replicated.
#pragma once

#include "trainer/layout/linear_parameters.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Computes y[T, out] = x[T, in/tp] W, summed over the tensor group, plus `residual`[T, out] and the bias if
// there is one.
void RowParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x,
                        const Tensor& residual, const Tensor& y);

// Accumulates the bias gradient and dW. Computes dx[T, in/tp] = dy W^T.
void RowParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy,
                         const Tensor& dx);

// Does the same for a layer whose x is the activation of pre[T, ...]. dpre, as wide as pre, receives the
// gradient with respect to pre. A gated activation also uses dx[T, in/tp], the gradient with respect to x.
// For other activations dx is not written and may be dpre.
void RowParallelActivationBackward(const Execution& run, Activation activation, const LinearParameters& p,
                                   const Tensor& x, const Tensor& dy, const Tensor& pre, const Tensor& dx,
                                   const Tensor& dpre);

}  // namespace autocfg::trainer
