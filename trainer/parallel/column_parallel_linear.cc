#include "trainer/parallel/column_parallel_linear.h"

#include "trainer/parallel/linear_gradient.h"

namespace autocfg::trainer {

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
                            const Tensor& dy, const Tensor& dx) {
  LinearGradient(run, p, x, dy);
  run.ops.Matmul(dy, Transpose::kNo, p.weight.value, Transpose::kYes, dx, false, run.stream);
  run.AllReduce(run.groups.tensor, dx, ReduceOp::kSum);
}

}  // namespace autocfg::trainer
