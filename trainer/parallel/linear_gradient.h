// Parameter gradients of a linear layer, for the weight and bias columns that a rank has. They are the same
// for both ways of splitting the layer.
#pragma once

#include "trainer/layout/linear_parameters.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Computes dW[in, out] += x[T, in]^T dy[T, out] and, if there is a bias, its gradient += column sums of dy.
void LinearGradient(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy);

}  // namespace autocfg::trainer
