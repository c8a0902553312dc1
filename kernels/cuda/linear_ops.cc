#include "kernels/cuda/linear_ops.h"

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>

#include "kernels/cuda/activation.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/column_sum.h"
#include "kernels/cuda/dispatch.h"
#include "kernels/op_check.h"

namespace autocfg::cuda {
namespace {

// Operands and result of the product that the descriptor names.
MatmulKey KeyOf(const OpDesc& op, const Tensor& result) {
  if (op.dtype != DType::kF32 && op.dtype != DType::kBF16) {
    throw std::invalid_argument(fmt::format("{}: the cuda device runs fp32 and bf16, not {}", Name(op.kind), Name(op.dtype)));
  }
  if (result.dtype != op.dtype && result.dtype != DType::kF32) {
    throw std::invalid_argument(
        fmt::format("{}: on the cuda device a result is of the operands' type or fp32, not {}", Name(op.kind), Name(result.dtype)));
  }
  return {.m = op.dims[0],
          .n = op.dims[1],
          .k = op.dims[2],
          .transpose_a = op.transpose_a,
          .transpose_b = op.transpose_b,
          .accumulate = op.accumulate,
          .operands = op.dtype,
          .result = result.dtype};
}

}  // namespace

bool LinearOps::Fused(MatmulKey key, LtEpilogue epilogue, const MatmulOperands& operands, cudaStream_t stream) {
  key.epilogue = epilogue;
  key.alignment = AlignmentOf(operands);
  if (!matmul_.Supports(key, operands, stream)) return false;
  matmul_.Run(key, operands, stream);
  return true;
}

void LinearOps::Plain(MatmulKey key, const MatmulOperands& operands, cudaStream_t stream) {
  key.epilogue = LtEpilogue::kNone;
  key.alignment = AlignmentOf(operands);
  matmul_.Run(key, operands, stream);
}

void LinearOps::Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate, Stream& stream) {
  const OpDesc op = op_check::Matmul(a, ta, b, tb, c, accumulate);
  Plain(KeyOf(op, c), {.a = a.data, .b = b.data, .d = c.data}, HandleOf(stream));
}

void LinearOps::MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c, Stream& stream) {
  const OpDesc op = op_check::MatmulBias(a, b, bias, c);
  const MatmulKey key = KeyOf(op, c);
  const cudaStream_t handle = HandleOf(stream);
  if (Fused(key, LtEpilogue::kBias, {.a = a.data, .b = b.data, .d = c.data, .bias = bias.data}, handle)) return;
  Plain(key, {.a = a.data, .b = b.data, .d = c.data}, handle);
  Dispatch(op, {}, [&]<typename T>() { cuda::BiasAdd(key.m, key.n, c.As<T>(), bias.As<const T>(), handle); });
}

void LinearOps::MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual, const Tensor& c, Stream& stream) {
  const OpDesc op = op_check::MatmulResidual(a, b, bias, residual, c);
  const MatmulKey key = KeyOf(op, c);
  const cudaStream_t handle = HandleOf(stream);
  // The library's c beside its d: the residual is read where the product is stored.
  MatmulKey adding = key;
  adding.accumulate = true;
  const MatmulOperands operands{.a = a.data, .b = b.data, .d = c.data, .c = residual.data, .bias = bias.data};
  if (!op.bias) return Plain(adding, operands, handle);
  if (Fused(adding, LtEpilogue::kBias, operands, handle)) return;
  Plain(key, {.a = a.data, .b = b.data, .d = c.data}, handle);
  Dispatch(op, {}, [&]<typename T>() {
    cuda::BiasResidual(key.m, key.n, c.As<T>(), bias.As<const T>(), residual.As<const T>(), handle);
  });
}

void LinearOps::MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& pre,
                                 const Tensor& y, Stream& stream) {
  const OpDesc op = op_check::MatmulActivation(activation, a, b, bias, pre, y);
  const MatmulKey key = KeyOf(op, y);
  const cudaStream_t handle = HandleOf(stream);
  // The library's GELU is the tanh form. Its ReLU keeps a mask in place of what goes in, which the backward reads.
  if (activation == Activation::kGelu) {
    const LtEpilogue epilogue = bias.IsPresent() ? LtEpilogue::kGeluBias : LtEpilogue::kGelu;
    if (Fused(key, epilogue, {.a = a.data, .b = b.data, .d = y.data, .bias = bias.data, .aux = pre.data}, handle)) return;
  }
  Plain(key, {.a = a.data, .b = b.data, .d = pre.data}, handle);
  Dispatch(op, {},
           [&]<typename T>() { cuda::ActivationForward(activation, key.m, key.n, pre.As<T>(), bias.As<const T>(), y.As<T>(), handle); });
}

void LinearOps::MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre, const Tensor& dpre,
                                         Stream& stream) {
  const OpDesc op = op_check::MatmulActivationBackward(activation, dy, b, pre, dpre);
  const MatmulKey key = KeyOf(op, dpre);
  const cudaStream_t handle = HandleOf(stream);
  const MatmulOperands operands{.a = dy.data, .b = b.data, .d = dpre.data, .aux = pre.data};
  if (activation == Activation::kGelu && Fused(key, LtEpilogue::kGeluGradient, operands, handle)) return;
  Plain(key, {.a = dy.data, .b = b.data, .d = dpre.data}, handle);
  Dispatch(op, {}, [&]<typename T>() {
    cuda::ActivationBackward(activation, key.m, key.n, pre.As<const T>(), dpre.As<const T>(), dpre.As<T>(), handle);
  });
}

void LinearOps::MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias, Stream& stream) {
  const OpDesc op = op_check::MatmulBiasGradient(x, dy, dw, dbias);
  const MatmulKey key = KeyOf(op, dw);
  const cudaStream_t handle = HandleOf(stream);
  if (dw.dtype != DType::kF32 || dbias.dtype != DType::kF32) {
    throw std::invalid_argument(fmt::format("{}: the cuda device keeps gradients of parameters in fp32", Name(op.kind)));
  }
  // The library writes the bias's gradient, so it goes beside the workspace first and is added then.
  const std::int64_t at = LtMatmul::kWorkspaceBytes;
  char* base = static_cast<char*>(scratch().Get(at + key.n * static_cast<std::int64_t>(sizeof(float))));
  float* sums = reinterpret_cast<float*>(base + at);
  if (Fused(key, LtEpilogue::kBiasGradient, {.a = x.data, .b = dy.data, .d = dw.data, .bias = sums}, handle)) {
    AddPartials(1, key.n, sums, dbias.As<float>(), handle);
    return;
  }
  Plain(key, {.a = x.data, .b = dy.data, .d = dw.data}, handle);
  Dispatch(op, {}, [&]<typename T>() { cuda::ColumnSum(dy.shape[0], key.n, dy.As<const T>(), dbias.As<float>(), scratch(), handle); });
}

}  // namespace autocfg::cuda
