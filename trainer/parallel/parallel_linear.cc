#include "trainer/parallel/parallel_linear.h"

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
                           const Tensor& y) {
  if (p.bias.present()) {
    run.ops.MatmulBias(x, p.weight.value, p.bias.value, y, run.stream);
  } else {
    run.ops.Matmul(x, Transpose::kNo, p.weight.value, Transpose::kNo, y, false, run.stream);
  }
}

void ColumnParallelActivationForward(const Execution& run, Activation activation, const LinearParameters& p,
                                     const Tensor& x, const Tensor& pre, const Tensor& y) {
  if (IsGated(activation)) {
    run.ops.Matmul(x, Transpose::kNo, p.weight.value, Transpose::kNo, pre, false, run.stream);
    run.ops.ActivationForward(activation, pre, p.bias.value, y, run.stream);
  } else {
    run.ops.MatmulActivation(activation, x, p.weight.value, p.bias.value, pre, y, run.stream);
  }
}

void ColumnParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x,
                            const Tensor& dy, const Tensor& dx, bool accumulate) {
  LinearGradient(run, p, x, dy, accumulate);
  run.ops.Matmul(dy, Transpose::kNo, p.weight.value, Transpose::kYes, dx, false, run.stream);
  run.AllReduce(run.groups.tensor, dx, ReduceOp::kSum);
}

void RowParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x,
                        const Tensor& residual, const Tensor& y) {
  if (run.groups.tensor == nullptr) {
    run.ops.MatmulResidual(x, p.weight.value, p.bias.value, residual, y, run.stream);
    return;
  }
  run.ops.Matmul(x, Transpose::kNo, p.weight.value, Transpose::kNo, y, false, run.stream);
  run.AllReduce(run.groups.tensor, y, ReduceOp::kSum);
  if (p.bias.present()) {
    run.ops.BiasResidual(y, p.bias.value, residual, run.stream);
  } else {
    run.ops.ResidualAdd(y, residual, run.stream);
  }
}

void RowParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy,
                         const Tensor& dx, bool accumulate) {
  LinearGradient(run, p, x, dy, accumulate);
  run.ops.Matmul(dy, Transpose::kNo, p.weight.value, Transpose::kYes, dx, false, run.stream);
}

void RowParallelActivationBackward(const Execution& run, Activation activation, const LinearParameters& p,
                                   const Tensor& x, const Tensor& dy, const Tensor& pre, const Tensor& dx,
                                   const Tensor& dpre, bool accumulate) {
  if (IsGated(activation)) {
    RowParallelBackward(run, p, x, dy, dx, accumulate);
    run.ops.ActivationBackward(activation, pre, dx, dpre, run.stream);
  } else {
    LinearGradient(run, p, x, dy, accumulate);
    run.ops.MatmulActivationBackward(activation, dy, p.weight.value, pre, dpre, run.stream);
  }
}

}  // namespace autocfg::trainer
