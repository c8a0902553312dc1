#include "trainer/parallel/row_parallel_linear.h"

#include "trainer/parallel/linear_gradient.h"

namespace autocfg::trainer {

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
                         const Tensor& dx) {
  LinearGradient(run, p, x, dy);
  run.ops.Matmul(dy, Transpose::kNo, p.weight.value, Transpose::kYes, dx, false, run.stream);
}

void RowParallelActivationBackward(const Execution& run, Activation activation, const LinearParameters& p,
                                   const Tensor& x, const Tensor& dy, const Tensor& pre, const Tensor& dx,
                                   const Tensor& dpre) {
  if (IsGated(activation)) {
    RowParallelBackward(run, p, x, dy, dx);
    run.ops.ActivationBackward(activation, pre, dx, dpre, run.stream);
  } else {
    LinearGradient(run, p, x, dy);
    run.ops.MatmulActivationBackward(activation, dy, p.weight.value, pre, dpre, run.stream);
  }
}

}  // namespace autocfg::trainer
