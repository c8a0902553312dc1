// A linear layer whose columns are split over the tensor group (Shoeybi et al. 2019): each rank has all of
// the input and its part of the output. The bias is left to the caller in the forward, since it fuses with
// what follows.
#pragma once

#include "trainer/parallel/execution.h"
#include "trainer/parallel/linear_parameters.h"

namespace autocfg {

// y[T, out/tp] = x[T, in] W.
void ColumnParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& y);

// The bias gradient and dW accumulate; dx[T, in] = dy W^T, summed over the tensor group.
void ColumnParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x,
                            const Tensor& dy, const Tensor& dx);

}  // namespace autocfg
