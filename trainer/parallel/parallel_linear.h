// Linear layers whose weight is split over the tensor group (Shoeybi et al. 2019).
//
// Column-parallel: each rank has the whole input x[T, in] and its columns of the output and the bias.
// Row-parallel: each rank has its columns of the input, x[T, in/tp], and the whole output after a sum over
// the group; the bias is replicated.
//
// Under sequence parallelism, the inputs of column-parallel layers, the outputs of row-parallel ones and the
// gradients of both are the rank's own rows, [R, ...]: token_rows.h. `whole` is the buffer for all rows.
//
// A backward computes the gradients of the parameters and the gradient of the input, or one of the two.
//
// The gradients of weight and bias in p are written, or added to if `accumulate`. They are the same for both
// ways of splitting: dW (+)= x^T dy and, if there is a bias, its gradient (+)= column sums of dy.
#pragma once

#include "kernels/ops.h"
#include "search/shapes/gradients.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Computes y[T, out] = x[T, in] W, plus the bias if there is one, of the columns or rows that the rank has.
void LinearForward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& y);

// Computes dW[in, out] (+)= x[T, in]^T dy[T, out] and, if there is a bias, its gradient (+)= column sums of
// dy, for the weight and bias that the rank has.
void LinearGradient(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy,
                    bool accumulate);

// Computes y[T, out/tp] = x[R, in] W, plus the bias if there is one.
void ColumnParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x,
                           const Tensor& whole, const Tensor& y);

// Computes the same into pre[T, out/tp], and y = activation(pre). y is as wide as pre, or half as wide if the
// activation is gated.
void ColumnParallelActivationForward(const Execution& run, Activation activation, const LinearParameters& p,
                                     const Tensor& x, const Tensor& whole, const Tensor& pre,
                                     const Tensor& y);

// Computes the parameter gradients, given dy[T, out/tp]. Returns dx[R, in] = dy W^T, summed over the tensor
// group: it is ReducedRows of `whole`.
Tensor ColumnParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x,
                              const Tensor& dy, const Tensor& whole, Gradients gradients, bool accumulate);

// Computes y[R, out] = x[T, in/tp] W, summed over the tensor group, plus `residual`[R, out] and the bias if
// there is one.
void RowParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x,
                        const Tensor& residual, const Tensor& whole, const Tensor& y);

// Does the same without a residual, for an output that is normed or scaled before the residual is added.
void RowParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& whole,
                        const Tensor& y);

// Computes the parameter gradients, given dy[R, out], and dx[T, in/tp] = dy W^T.
void RowParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy,
                         const Tensor& whole, const Tensor& dx, Gradients gradients, bool accumulate);

// Does the same for a layer whose x is the activation of pre[T, in/tp], or of pre[T, 2 in/tp] if it is gated.
// dpre, as wide as pre, receives the gradient with respect to pre. A gated activation also uses dx[T, in/tp],
// the gradient with respect to x. For other activations dx is not written and may be dpre.
void RowParallelActivationBackward(const Execution& run, Activation activation, const LinearParameters& p,
                                   const Tensor& x, const Tensor& dy, const Tensor& whole, const Tensor& pre,
                                   const Tensor& dx, const Tensor& dpre, Gradients gradients,
                                   bool accumulate);

}  // namespace autocfg::trainer
