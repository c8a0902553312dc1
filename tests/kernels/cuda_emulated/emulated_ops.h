// Ops of the CUDA engine's own kernels on the emulated device. In the place of the libraries' matrix products
// stand plain loops, here on the host, whose epilogues are the engine's kernels; see
// cuda_emulator/cuda_runtime.h. One thread.
#pragma once

#include "kernels/cuda/activation.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/column_sum.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernel_ops.h"
#include "kernels/op_check.h"

namespace autocfg::cuda {

class EmulatedOps : public KernelOps {
 public:
  void Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate,
              Stream&) override {
    const OpDesc op = op_check::Matmul(a, ta, b, tb, c, accumulate);
    Dispatch(op, {}, [&]<typename T>() {
      if (c.dtype == DType::kF32) {
        Multiply<T, float>(op, a, b, c);
      } else {
        Multiply<T, T>(op, a, b, c);
      }
    });
  }
  void MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
                  Stream& stream) override {
    const OpDesc op = op_check::MatmulBias(a, b, bias, c);
    Dispatch(op, {}, [&]<typename T>() {
      Multiply<T, T>(op, a, b, c);
      BiasAdd(c.shape[0], c.shape[1], c.As<T>(), bias.As<const T>(), HandleOf(stream));
    });
  }
  void MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y, Stream& stream) override {
    const OpDesc op = op_check::MatmulActivation(activation, a, b, bias, pre, y);
    Dispatch(op, {}, [&]<typename T>() {
      Multiply<T, T>(op, a, b, pre);
      cuda::ActivationForward(activation, pre.shape[0], pre.shape[1], pre.As<T>(), bias.As<const T>(),
                              y.As<T>(), HandleOf(stream));
    });
  }
  void MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre, Stream& stream) override {
    const OpDesc op = op_check::MatmulActivationBackward(activation, dy, b, pre, dpre);
    Dispatch(op, {}, [&]<typename T>() {
      Multiply<T, T>(op, dy, b, dpre);
      cuda::ActivationBackward(activation, pre.shape[0], pre.shape[1], pre.As<const T>(), dpre.As<const T>(),
                               dpre.As<T>(), HandleOf(stream));
    });
  }
  void MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          Stream& stream) override {
    const OpDesc op = op_check::MatmulBiasGradient(x, dy, dw, dbias);
    Dispatch(op, {&dw, &dbias}, [&]<typename T>() {
      Multiply<T, float>(op, x, dy, dw);
      ColumnSum(dy.shape[0], dy.shape[1], dy.As<const T>(), dbias.As<float>(), scratch(), HandleOf(stream));
    });
  }

  void AttentionForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& out,
                        const Tensor& lse, const Tensor& workspace, Stream& stream) override {
    const OpDesc op = op_check::AttentionForward(qkv, heads, kv_heads, out, lse, workspace);
    Dispatch(op, {&lse}, [&]<typename T>() {
      cuda::AttentionForward(ShapeOf(op), qkv.As<const T>(), out.As<T>(), lse.As<float>(), HandleOf(stream));
    });
  }
  void AttentionBackward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& out,
                         const Tensor& lse, const Tensor& dout, const Tensor& dqkv, const Tensor& workspace,
                         Stream& stream) override {
    const OpDesc op = op_check::AttentionBackward(qkv, heads, kv_heads, out, lse, dout, dqkv, workspace);
    const AttentionShape shape = ShapeOf(op);
    Dispatch(op, {&lse}, [&]<typename T>() {
      cuda::AttentionBackward(shape, qkv.As<const T>(), out.As<const T>(), lse.As<const float>(),
                              dout.As<const T>(), dqkv.As<T>(),
                              scratch().Get<float>(AttentionDeltaElements(shape)), HandleOf(stream));
    });
  }

 protected:
  cudaStream_t HandleOf(Stream& stream) override { return cuda::HandleOf(stream); }

 private:
  static AttentionShape ShapeOf(const OpDesc& op) {
    return {op.dims[0], op.dims[1], op.dims[2], op.dims[4], op.dims[3]};
  }

  template <typename T, typename C>
  static void Multiply(const OpDesc& op, const Tensor& a, const Tensor& b, const Tensor& c) {
    const auto [m, n, k, unused, unused2] = op.dims;
    const T *x = a.As<const T>(), *y = b.As<const T>();
    C* z = c.As<C>();
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = op.accumulate ? static_cast<double>(z[i * n + j]) : 0.0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum += static_cast<double>(op.transpose_a ? x[l * m + i] : x[i * k + l]) *
                 static_cast<double>(op.transpose_b ? y[j * k + l] : y[l * n + j]);
        }
        z[i * n + j] = static_cast<C>(static_cast<float>(sum));
      }
    }
  }
};

}  // namespace autocfg::cuda
