#include "trainer/parallel/linear_gradient.h"

namespace autocfg::trainer {

void LinearGradient(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy) {
  if (p.bias.present()) {
    run.ops.MatmulBiasGradient(x, dy, p.weight.grad, p.bias.grad, run.stream);
  } else {
    run.ops.Matmul(x, Transpose::kYes, dy, Transpose::kNo, p.weight.grad, true, run.stream);
  }
}

}  // namespace autocfg::trainer
