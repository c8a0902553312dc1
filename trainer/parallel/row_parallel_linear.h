// A linear layer whose rows are split over the tensor group (Shoeybi et al. 2019): each rank has its part of
// the input, and all of the output after a sum over the group. The bias is replicated.
#pragma once

#include "trainer/parallel/execution.h"
#include "trainer/parallel/linear_parameters.h"

namespace autocfg {

// y[T, out] = x[T, in/tp] W, summed over the tensor group, plus bias (where there is one) and
// `residual`[T, out].
void RowParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x,
                        const Tensor& residual, const Tensor& y);

// The bias gradient and dW accumulate; dx[T, in/tp] = dy W^T.
void RowParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy,
                         const Tensor& dx);

// The same of a layer whose x is the activation of pre[T, ...]: dpre, as wide as pre, is the gradient by
// that. dx[T, in/tp] is what a gated activation needs besides; it may be dpre, and stays as it is, where the
// activation is not gated.
void RowParallelActivationBackward(const Execution& run, Activation activation, const LinearParameters& p,
                                   const Tensor& x, const Tensor& dy, const Tensor& pre, const Tensor& dx,
                                   const Tensor& dpre);

}  // namespace autocfg
