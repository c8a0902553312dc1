// The gradients of a linear layer's parameters, the same however it is split: weight and bias of the columns
// that a rank has.
#pragma once

#include "trainer/parallel/execution.h"
#include "trainer/parallel/linear_parameters.h"

namespace autocfg {

// dW[in, out] += x[T, in]^T dy[T, out], and the bias gradient += column sums of dy where there is a bias.
void LinearGradient(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy);

}  // namespace autocfg
