#include "trainer/parallel/row_parallel_linear.h"

namespace autocfg {

void RowParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x,
                        const Tensor& residual, const Tensor& y) {
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
  if (p.bias.present()) run.ops.BiasGradient(dy, p.bias.grad, run.stream);
  run.ops.Matmul(x, Transpose::kYes, dy, Transpose::kNo, p.weight.grad, true, run.stream);
  run.ops.Matmul(dy, Transpose::kNo, p.weight.value, Transpose::kYes, dx, false, run.stream);
}

}  // namespace autocfg
