#include "trainer/parallel/parallel_linear.h"

#include "trainer/parallel/reduced_product.h"
#include "trainer/parallel/token_rows.h"

namespace autocfg::trainer {
namespace {

// Computes dx[T, in] = dy[T, out] W^T.
void LinearInputGradient(const Execution& run, const LinearParameters& p, const Tensor& dy,
                         const Tensor& dx) {
  run.ops.Matmul(dy, Transpose::kNo, p.weight.value, Transpose::kYes, dx, false, run.stream);
}

}  // namespace

void LinearForward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& y) {
  if (p.bias.present()) {
    run.ops.MatmulBias(x, p.weight.value, p.bias.value, y, run.stream);
  } else {
    run.ops.Matmul(x, Transpose::kNo, p.weight.value, Transpose::kNo, y, false, run.stream);
  }
}

void LinearGradient(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy,
                    bool accumulate) {
  if (p.bias.present()) {
    run.ops.MatmulBiasGradient(x, dy, p.weight.grad, p.bias.grad, run.Adds(accumulate), run.stream);
  } else {
    run.ops.Matmul(x, Transpose::kYes, dy, Transpose::kNo, p.weight.grad, run.Adds(accumulate), run.stream);
  }
}

void ColumnParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x,
                           const Tensor& whole, const Tensor& y) {
  LinearForward(run, p, GatherRows(run, x, whole), y);
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
                              const Tensor& dy, const Tensor& whole, Gradients gradients, bool accumulate) {
  if (OfWeights(gradients)) LinearGradient(run, p, GatherRows(run, x, whole), dy, accumulate);
  Tensor dx = ReducedRows(run, whole);
  if (!OfInputs(gradients)) return dx;
  ReducedProduct(run, {{dy, p.weight.value}}, Transpose::kYes, whole, dx);
  return dx;
}

void RowParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x,
                        const Tensor& residual, const Tensor& whole, const Tensor& y) {
  if (run.groups.tensor == nullptr) {
    run.ops.MatmulResidual(x, p.weight.value, p.bias.value, residual, y, run.stream);
    return;
  }
  ReducedProduct(run, {{x, p.weight.value}}, Transpose::kNo, SumsOf(run, y, whole), y);
  if (p.bias.present()) {
    run.ops.BiasResidual(y, p.bias.value, residual, run.stream);
  } else {
    run.ops.ResidualAdd(y, residual, run.stream);
  }
}

void RowParallelForward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& whole,
                        const Tensor& y) {
  if (run.groups.tensor != nullptr) {
    ReducedProduct(run, {{x, p.weight.value}}, Transpose::kNo, SumsOf(run, y, whole), y);
    // A bias is a table of one position.
    if (p.bias.present())
      run.ops.PositionForward(y, 1, 0, p.bias.value.Reshape({1, p.bias.value.shape[0]}), run.stream);
  } else {
    LinearForward(run, p, x, y);
  }
}

void RowParallelBackward(const Execution& run, const LinearParameters& p, const Tensor& x, const Tensor& dy,
                         const Tensor& whole, const Tensor& dx, Gradients gradients, bool accumulate) {
  const Tensor all = GatherRows(run, dy, whole);
  if (OfWeights(gradients)) LinearGradient(run, p, x, all, accumulate);
  if (OfInputs(gradients)) LinearInputGradient(run, p, all, dx);
}

void RowParallelActivationBackward(const Execution& run, Activation activation, const LinearParameters& p,
                                   const Tensor& x, const Tensor& dy, const Tensor& whole, const Tensor& pre,
                                   const Tensor& dx, const Tensor& dpre, Gradients gradients,
                                   bool accumulate) {
  const Tensor all = GatherRows(run, dy, whole);
  if (OfWeights(gradients)) LinearGradient(run, p, x, all, accumulate);
  if (!OfInputs(gradients)) return;
  if (IsGated(activation)) {
    LinearInputGradient(run, p, all, dx);
    run.ops.ActivationBackward(activation, pre, dx, dpre, run.stream);
  } else {
    run.ops.MatmulActivationBackward(activation, all, p.weight.value, pre, dpre, run.stream);
  }
}

}  // namespace autocfg::trainer
