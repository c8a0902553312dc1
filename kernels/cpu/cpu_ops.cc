// The CPU implementation of Ops. Checks the shapes, then runs the loops for the element type.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <stdexcept>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/op_check.h"

namespace autocfg {
namespace {

// Runs `body.operator()<T>()` for the element type of the op. All of `others` must have the same type.
template <typename Body>
void Dispatch(const OpDesc& op, const Tensor& first, std::initializer_list<const Tensor*> others, Body body) {
  for (const Tensor* t : others) {
    if (t->dtype != first.dtype) {
      throw std::invalid_argument(
          fmt::format("{}: the cpu device needs one type for all operands, not {} and {}", Name(op.kind),
                      Name(first.dtype), Name(t->dtype)));
    }
  }
  switch (first.dtype) {
    case DType::kF32: return body.template operator()<float>();
    case DType::kF64: return body.template operator()<double>();
    default:
      throw std::invalid_argument(fmt::format("{}: {} is not supported on the cpu device; use fp32 or fp64",
                                              Name(op.kind), Name(first.dtype)));
  }
}

class CpuOps final : public Ops {
 public:
  void Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate,
              Stream&) override {
    const OpDesc op = op_check::Matmul(a, ta, b, tb, c, accumulate);
    Dispatch(op, a, {&b, &c}, [&]<typename T>() { Product<T>(op, a, b, c); });
  }

  void MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c, Stream&) override {
    const OpDesc op = op_check::MatmulBias(a, b, bias, c);
    Dispatch(op, a, {}, [&]<typename T>() {
      Product<T>(op, a, b, c);
      cpu::BiasAdd(op.dims[0], op.dims[1], c.As<T>(), bias.As<const T>());
    });
  }

  void MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                      const Tensor& c, Stream&) override {
    const OpDesc op = op_check::MatmulResidual(a, b, bias, residual, c);
    Dispatch(op, a, {}, [&]<typename T>() {
      Product<T>(op, a, b, c);
      if (op.bias) {
        cpu::BiasResidual(op.dims[0], op.dims[1], c.As<T>(), bias.As<const T>(), residual.As<const T>());
      } else {
        cpu::ResidualAdd(c.Elements(), c.As<T>(), residual.As<const T>());
      }
    });
  }

  void MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y, Stream&) override {
    const OpDesc op = op_check::MatmulActivation(activation, a, b, bias, pre, y);
    Dispatch(op, a, {}, [&]<typename T>() {
      Product<T>(op, a, b, pre);
      cpu::ActivationForward(activation, op.dims[0], op.dims[1], pre.As<T>(), bias.As<const T>(), y.As<T>());
    });
  }

  void MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre, Stream&) override {
    const OpDesc op = op_check::MatmulActivationBackward(activation, dy, b, pre, dpre);
    Dispatch(op, dy, {}, [&]<typename T>() {
      Product<T>(op, dy, b, dpre);
      cpu::ActivationBackward(activation, op.dims[0], op.dims[1], pre.As<const T>(), dpre.As<const T>(),
                              dpre.As<T>());
    });
  }

  void MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          bool accumulate, Stream&) override {
    const OpDesc op = op_check::MatmulBiasGradient(x, dy, dw, dbias, accumulate);
    Dispatch(op, x, {&dw}, [&]<typename T>() {
      Product<T>(op, x, dy, dw);
      if (!accumulate) Clear<T>(dbias);
      cpu::BiasGradient(op.dims[2], op.dims[1], dy.As<const T>(), dbias.As<T>());
    });
  }

  void LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd, Stream&) override {
    const OpDesc op = op_check::LayerNormForward(x, gamma, beta, y, mean, rstd);
    Dispatch(op, x, {&mean, &rstd}, [&]<typename T>() {
      cpu::LayerNormForward(op.dims[0], op.dims[1], x.As<const T>(), gamma.As<const T>(), beta.As<const T>(),
                            static_cast<T>(eps), y.As<T>(), mean.As<T>(), rstd.As<T>());
    });
  }

  void LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                         const Tensor& dbeta, bool accumulate, Stream&) override {
    const OpDesc op =
        op_check::LayerNormBackward(dy, x, gamma, mean, rstd, dx, add_to_dx, dgamma, dbeta, accumulate);
    Dispatch(op, x, {&mean, &rstd, &dgamma, &dbeta}, [&]<typename T>() {
      if (!accumulate) {
        Clear<T>(dgamma);
        Clear<T>(dbeta);
      }
      cpu::LayerNormBackward(op.dims[0], op.dims[1], dy.As<const T>(), x.As<const T>(), gamma.As<const T>(),
                             mean.As<const T>(), rstd.As<const T>(), dx.As<T>(), add_to_dx, dgamma.As<T>(),
                             dbeta.As<T>());
    });
  }

  void RmsNormForward(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y, const Tensor& rstd,
                      Stream&) override {
    const OpDesc op = op_check::RmsNormForward(x, gamma, y, rstd);
    Dispatch(op, x, {&rstd}, [&]<typename T>() {
      cpu::RmsNormForward(op.dims[0], op.dims[1], x.As<const T>(), gamma.As<const T>(), static_cast<T>(eps),
                          y.As<T>(), rstd.As<T>());
    });
  }

  void RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate,
                       Stream&) override {
    const OpDesc op = op_check::RmsNormBackward(dy, x, gamma, rstd, dx, add_to_dx, dgamma, accumulate);
    Dispatch(op, x, {&rstd, &dgamma}, [&]<typename T>() {
      if (!accumulate) Clear<T>(dgamma);
      cpu::RmsNormBackward(op.dims[0], op.dims[1], dy.As<const T>(), x.As<const T>(), gamma.As<const T>(),
                           rstd.As<const T>(), dx.As<T>(), add_to_dx, dgamma.As<T>());
    });
  }

  void BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual, Stream&) override {
    const OpDesc op = op_check::BiasResidual(y, bias, residual);
    Dispatch(op, y, {}, [&]<typename T>() {
      cpu::BiasResidual(op.dims[0], op.dims[1], y.As<T>(), bias.As<const T>(), residual.As<const T>());
    });
  }

  void ResidualAdd(const Tensor& y, const Tensor& residual, Stream&) override {
    const OpDesc op = op_check::ResidualAdd(y, residual);
    Dispatch(op, y, {},
             [&]<typename T>() { cpu::ResidualAdd(y.Elements(), y.As<T>(), residual.As<const T>()); });
  }

  void Scale(const Tensor& x, double factor, const Tensor& y, Stream&) override {
    const OpDesc op = op_check::Scale(x, factor, y);
    Dispatch(op, x, {}, [&]<typename T>() {
      cpu::Scale(x.Elements(), x.As<const T>(), static_cast<T>(factor), y.As<T>());
    });
  }

  void ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y,
                         Stream&) override {
    const OpDesc op = op_check::ActivationForward(activation, x, bias, y);
    Dispatch(op, x, {}, [&]<typename T>() {
      cpu::ActivationForward(activation, op.dims[0], op.dims[1], x.As<T>(), bias.As<const T>(), y.As<T>());
    });
  }

  void ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx,
                          Stream&) override {
    const OpDesc op = op_check::ActivationBackward(activation, x, dy, dx);
    Dispatch(op, x, {}, [&]<typename T>() {
      cpu::ActivationBackward(activation, op.dims[0], op.dims[1], x.As<const T>(), dy.As<const T>(),
                              dx.As<T>());
    });
  }

  void HeadNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& gamma_q,
                       const Tensor& gamma_k, double eps, const Tensor& raw, const Tensor& rstd,
                       Stream&) override {
    const OpDesc op = op_check::HeadNormForward(qkv, heads, kv_heads, gamma_q, gamma_k, raw, rstd);
    const cpu::HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
    Dispatch(op, qkv, {&rstd}, [&]<typename T>() {
      cpu::HeadNormForward(shape, qkv.As<T>(), gamma_q.As<const T>(), gamma_k.As<const T>(),
                           static_cast<T>(eps), raw.As<T>(), rstd.As<T>());
    });
  }

  void HeadNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                        const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                        const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate, Stream&) override {
    const OpDesc op = op_check::HeadNormBackward(dqkv, heads, kv_heads, raw, gamma_q, gamma_k, rstd, dgamma_q,
                                                 dgamma_k, accumulate);
    const cpu::HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
    Dispatch(op, dqkv, {&rstd, &dgamma_q, &dgamma_k}, [&]<typename T>() {
      if (!accumulate) {
        Clear<T>(dgamma_q);
        Clear<T>(dgamma_k);
      }
      cpu::HeadNormBackward(shape, dqkv.As<T>(), raw.As<const T>(), gamma_q.As<const T>(),
                            gamma_k.As<const T>(), rstd.As<const T>(), dgamma_q.As<T>(), dgamma_k.As<T>());
    });
  }

  void QkSquares(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& sums,
                 Stream&) override {
    const OpDesc op = op_check::QkSquares(qkv, heads, kv_heads, sums);
    const cpu::HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
    Dispatch(op, qkv, {&sums}, [&]<typename T>() { cpu::QkSquares(shape, qkv.As<const T>(), sums.As<T>()); });
  }

  void QkNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                     const Tensor& gamma_q, const Tensor& gamma_k, double eps, const Tensor& raw,
                     const Tensor& rstd, Stream&) override {
    const OpDesc op = op_check::QkNormForward(qkv, heads, kv_heads, ranks, gamma_q, gamma_k, raw, rstd);
    const cpu::HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
    Dispatch(op, qkv, {&rstd}, [&]<typename T>() {
      cpu::QkNormForward(shape, ranks, qkv.As<T>(), gamma_q.As<const T>(), gamma_k.As<const T>(),
                         static_cast<T>(eps), raw.As<T>(), rstd.As<T>());
    });
  }

  void QkProducts(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                  const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd, const Tensor& products,
                  Stream&) override {
    const OpDesc op = op_check::QkProducts(dqkv, heads, kv_heads, raw, gamma_q, gamma_k, rstd, products);
    const cpu::HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
    Dispatch(op, dqkv, {&rstd, &products}, [&]<typename T>() {
      cpu::QkProducts(shape, dqkv.As<const T>(), raw.As<const T>(), gamma_q.As<const T>(),
                      gamma_k.As<const T>(), rstd.As<const T>(), products.As<T>());
    });
  }

  void QkNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                      const Tensor& raw, const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                      const Tensor& products, const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate,
                      Stream&) override {
    const OpDesc op = op_check::QkNormBackward(dqkv, heads, kv_heads, ranks, raw, gamma_q, gamma_k, rstd,
                                               products, dgamma_q, dgamma_k, accumulate);
    const cpu::HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
    Dispatch(op, dqkv, {&rstd, &products, &dgamma_q, &dgamma_k}, [&]<typename T>() {
      if (!accumulate) {
        Clear<T>(dgamma_q);
        Clear<T>(dgamma_k);
      }
      cpu::QkNormBackward(shape, ranks, dqkv.As<T>(), raw.As<const T>(), gamma_q.As<const T>(),
                          gamma_k.As<const T>(), rstd.As<const T>(), products.As<const T>(), dgamma_q.As<T>(),
                          dgamma_k.As<T>());
    });
  }

  void Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim, std::int64_t rotary_dims,
            double theta, bool inverse, Stream&) override {
    const OpDesc op = op_check::Rope(qkv, heads_turned, head_dim, rotary_dims, theta);
    const cpu::RopeShape shape{qkv.shape[0], qkv.shape[1], qkv.shape[2], heads_turned, head_dim, rotary_dims};
    Dispatch(op, qkv, {}, [&]<typename T>() { cpu::Rope(shape, theta, inverse, qkv.As<T>()); });
  }

  void AttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                        const Tensor& workspace, Stream&) override {
    const OpDesc op = op_check::AttentionForward(qkv, form, out, lse, workspace);
    Dispatch(op, qkv, {&lse}, [&]<typename T>() {
      cpu::AttentionForward(AttentionShape(op, form), qkv.As<const T>(), out.As<T>(), lse.As<T>(),
                            workspace.As<T>());
    });
  }

  void AttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                         const Tensor& dout, const Tensor& dqkv, const Tensor& workspace, Stream&) override {
    const OpDesc op = op_check::AttentionBackward(qkv, form, out, lse, dout, dqkv, workspace);
    Dispatch(op, qkv, {&lse}, [&]<typename T>() {
      cpu::AttentionBackward(AttentionShape(op, form), qkv.As<const T>(), out.As<const T>(),
                             lse.As<const T>(), dout.As<const T>(), dqkv.As<T>(), workspace.As<T>());
    });
  }

  void UnfusedAttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                               const Tensor& out, Stream&) override {
    const OpDesc op = op_check::UnfusedAttentionForward(qkv, form, probabilities, out);
    Dispatch(op, qkv, {}, [&]<typename T>() {
      cpu::UnfusedAttentionForward(AttentionShape(op, form), qkv.As<const T>(), probabilities.As<T>(),
                                   out.As<T>());
    });
  }

  void UnfusedAttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                                const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                                const Tensor& dscores, Stream&) override {
    const OpDesc op = op_check::UnfusedAttentionBackward(qkv, form, probabilities, out, dout, dqkv, dscores);
    Dispatch(op, qkv, {}, [&]<typename T>() {
      cpu::UnfusedAttentionBackward(AttentionShape(op, form), qkv.As<const T>(), probabilities.As<const T>(),
                                    out.As<const T>(), dout.As<const T>(), dqkv.As<T>(), dscores.As<T>());
    });
  }

  void EmbeddingForward(const Tensor& tokens, const Tensor& table, std::int64_t vocab_start,
                        const Tensor& out, Stream&) override {
    const OpDesc op = op_check::EmbeddingForward(tokens, table, out);
    Dispatch(op, out, {}, [&]<typename T>() {
      cpu::EmbeddingForward(op.dims[0], op.dims[1], op.dims[2], vocab_start, tokens.As<const std::int32_t>(),
                            table.As<const T>(), out.As<T>());
    });
  }

  void EmbeddingBackward(const Tensor& tokens, const Tensor& dout, std::int64_t vocab_start,
                         const Tensor& dtable, bool accumulate, Stream&) override {
    const OpDesc op = op_check::EmbeddingBackward(tokens, dout, dtable, accumulate);
    Dispatch(op, dout, {&dtable}, [&]<typename T>() {
      if (!accumulate) Clear<T>(dtable);
      cpu::EmbeddingBackward(op.dims[0], op.dims[1], op.dims[2], vocab_start, tokens.As<const std::int32_t>(),
                             dout.As<const T>(), dtable.As<T>());
    });
  }

  void PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first, const Tensor& table,
                       Stream&) override {
    const OpDesc op = op_check::PositionForward(y, seq_len, first, table);
    Dispatch(op, y, {}, [&]<typename T>() {
      cpu::PositionForward({y.shape[0], y.shape[1]}, seq_len, first, y.As<T>(), table.As<const T>());
    });
  }

  void PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate, Stream&) override {
    const OpDesc op = op_check::PositionBackward(dy, dtable, accumulate);
    Dispatch(op, dy, {&dtable}, [&]<typename T>() {
      if (!accumulate) Clear<T>(dtable);
      cpu::PositionBackward(dy.shape[0], dy.shape[1], dy.shape[2], dy.As<const T>(), dtable.As<T>());
    });
  }

  void CrossEntropy(const Tensor& logits, std::int64_t valid, const Tensor& targets, double scale,
                    const Tensor& loss, Stream&) override {
    const OpDesc op = op_check::CrossEntropy(logits, valid, targets, loss);
    Dispatch(op, logits, {}, [&]<typename T>() {
      *loss.As<double>() += cpu::CrossEntropy(op.dims[0], op.dims[1], valid, logits.As<T>(),
                                              targets.As<const std::int32_t>(), static_cast<T>(scale));
    });
  }

  void CrossEntropyForward(const Tensor& logits, std::int64_t valid, const Tensor& targets,
                           std::int64_t vocab_start, const Tensor& max, const Tensor& sums,
                           Stream&) override {
    const OpDesc op = op_check::CrossEntropyForward(logits, valid, targets, max, sums);
    Dispatch(op, logits, {&max, &sums}, [&]<typename T>() {
      cpu::CrossEntropyForward(op.dims[0], op.dims[1], valid, logits.As<const T>(),
                               targets.As<const std::int32_t>(), vocab_start, max.As<T>(), sums.As<T>());
    });
  }

  void CrossEntropyRescale(const Tensor& max, const Tensor& sums, Stream&) override {
    const OpDesc op = op_check::CrossEntropyRescale(max, sums);
    Dispatch(op, sums, {&max},
             [&]<typename T>() { cpu::CrossEntropyRescale(op.dims[0], max.As<const T>(), sums.As<T>()); });
  }

  void CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss, Stream&) override {
    const OpDesc op = op_check::CrossEntropyLoss(max, sums, loss);
    Dispatch(op, sums, {&max}, [&]<typename T>() {
      *loss.As<double>() += cpu::CrossEntropyLoss(op.dims[0], max.As<const T>(), sums.As<T>());
    });
  }

  void CrossEntropyBackward(const Tensor& logits, std::int64_t valid, const Tensor& sums,
                            const Tensor& targets, std::int64_t vocab_start, double scale, Stream&) override {
    const OpDesc op = op_check::CrossEntropyBackward(logits, valid, sums, targets);
    Dispatch(op, logits, {&sums}, [&]<typename T>() {
      cpu::CrossEntropyBackward(op.dims[0], op.dims[1], valid, logits.As<T>(), sums.As<const T>(),
                                targets.As<const std::int32_t>(), vocab_start, static_cast<T>(scale));
    });
  }

  void Fill(const Tensor& y, double value, Stream&) override {
    const OpDesc op = op_check::Fill(y);
    Dispatch(op, y, {}, [&]<typename T>() { std::fill_n(y.As<T>(), op.dims[0], static_cast<T>(value)); });
  }

  void SumOfSquares(std::span<const Tensor> tensors, const Tensor& result, Stream&) override {
    if (tensors.empty()) return;
    const OpDesc op = op_check::SumOfSquares(tensors, result);
    Dispatch(op, tensors.front(), {}, [&]<typename T>() {
      for (const Tensor& x : tensors)
        *result.As<double>() += cpu::SumOfSquares(x.Elements(), x.As<const T>());
    });
  }

  void AdamW(std::span<const AdamWTensor> tensors, const AdamWParams& params, Stream&) override {
    if (tensors.empty()) return;
    const OpDesc op = op_check::AdamW(tensors, params);
    if (op.master_weights) {
      throw std::invalid_argument(
          "adamw: the cpu device keeps no master copy of the weights; fp32 and fp64 need none");
    }
    const AdamWTensor& first = tensors.front();
    const double grad_scale =
        params.clip_norm == 0 ? 1.0
                              : ClipFactor(params.clip_norm, std::sqrt(*params.squared_norm.As<double>()));
    Dispatch(op, first.param, {&first.grad, &first.m}, [&]<typename T>() {
      for (const AdamWTensor& t : tensors) {
        cpu::AdamW(t.param.Elements(), t.param.As<T>(), t.grad.As<const T>(), t.m.As<T>(), t.v.As<T>(),
                   t.weight_decay, grad_scale, params);
      }
    });
  }

 private:
  template <typename T>
  static void Clear(const Tensor& gradient) {
    std::fill_n(gradient.As<T>(), gradient.Elements(), T(0));
  }

  // Runs the matrix product of any matmul op.
  template <typename T>
  static void Product(const OpDesc& op, const Tensor& a, const Tensor& b, const Tensor& c) {
    cpu::Gemm(Transpose{op.transpose_a}, Transpose{op.transpose_b}, op.dims[0], op.dims[1], op.dims[2], T(1),
              a.As<T>(), a.shape[1], b.As<T>(), b.shape[1], op.accumulate ? T(1) : T(0), c.As<T>(),
              c.shape[1]);
  }

  static cpu::AttentionShape AttentionShape(const OpDesc& op, const AttentionForm& form) {
    return {op.dims[0], op.dims[1], op.dims[2], op.dims[3], op.dims[4], form};
  }
};

}  // namespace

std::unique_ptr<Ops> CreateCpuOps() {
  cpu::UseOneBlasThread();
  return std::make_unique<CpuOps>();
}

}  // namespace autocfg
