#include "trainer/parallel/parallel_linear.h"

#include "trainer/parallel/token_rows.h"

namespace autocfg::trainer {
namespace {

// Computes dW[in, out] (+)= x[T, in]^T dy[T, out] and, if there is a bias, its gradient (+)= column sums of
// dy, for the weight and bias that the rank has.
void LinearGradient(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy,
                    bool accumulate) {
  if (p.bias.present()) {
    run.ops.MatmulBiasGradient(x, dy, p.weight.grad, p.bias.grad, accumulate, run.stream);
  } else {
    run.ops.Matmul(x, Transpose::kYes, dy, Transpose::kNo, p.weight.grad, accumulate, run.stream);
  }
}

}  // namespace

void ColumnParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x,
                           const Tensor& whole, const Tensor& y) {
  const Tensor all = GatherRows(run, x, whole);
  if (p.bias.present()) {
    run.ops.MatmulBias(all, p.weight.value, p.bias.value, y, run.stream);
  } else {
    run.ops.Matmul(all, Transpose::kNo, p.weight.value, Transpose::kNo, y, false, run.stream);
  }
}

void ColumnParallelActivationForward(const Execution& run, Activation activation, const LinearParameters& p,
                                     const Tensor& x, const Tensor& whole, const Tensor& pre,
                                     const Tensor& y) {
  const Tensor all = GatherRows(run, x, whole);
  if (IsGated(activation)) {
    run.ops.Matmul(all, Transpose::kNo, p.weight.value, Transpose::kNo, pre, false, run.stream);
    run.ops.ActivationForward(activation, pre, p.bias.value, y, run.stream);
  } else {
    run.ops.MatmulActivation(activation, all, p.weight.value, p.bias.value, pre, y, run.stream);
  }
}

Tensor ColumnParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x,
                              const Tensor& dy, const Tensor& whole, bool accumulate) {
  LinearGradient(run, p, GatherRows(run, x, whole), dy, accumulate);
  run.ops.Matmul(dy, Transpose::kNo, p.weight.value, Transpose::kYes, whole, false, run.stream);
  Tensor dx = OwnRows(run, whole);
  ReduceRows(run, whole, dx);
  return dx;
}

void RowParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x,
                        const Tensor& residual, const Tensor& whole, const Tensor& y) {
  if (run.groups.tensor == nullptr) {
    run.ops.MatmulResidual(x, p.weight.value, p.bias.value, residual, y, run.stream);
    return;
  }
  const Tensor& sums = SumsOf(run, y, whole);
  run.ops.Matmul(x, Transpose::kNo, p.weight.value, Transpose::kNo, sums, false, run.stream);
  ReduceRows(run, sums, y);
  if (p.bias.present()) {
    run.ops.BiasResidual(y, p.bias.value, residual, run.stream);
  } else {
    run.ops.ResidualAdd(y, residual, run.stream);
  }
}

void RowParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy,
                         const Tensor& whole, const Tensor& dx, bool accumulate) {
  const Tensor all = GatherRows(run, dy, whole);
  LinearGradient(run, p, x, all, accumulate);
  run.ops.Matmul(all, Transpose::kNo, p.weight.value, Transpose::kYes, dx, false, run.stream);
}

void RowParallelActivationBackward(const Execution& run, Activation activation, const LinearParameters& p,
                                   const Tensor& x, const Tensor& dy, const Tensor& whole, const Tensor& pre,
                                   const Tensor& dx, const Tensor& dpre, bool accumulate) {
  if (IsGated(activation)) {
    RowParallelBackward(run, p, x, dy, whole, dx, accumulate);
    run.ops.ActivationBackward(activation, pre, dx, dpre, run.stream);
  } else {
    const Tensor all = GatherRows(run, dy, whole);
    LinearGradient(run, p, x, all, accumulate);
    run.ops.MatmulActivationBackward(activation, all, p.weight.value, pre, dpre, run.stream);
  }
}

}  // namespace autocfg::trainer
