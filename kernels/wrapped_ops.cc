#include "kernels/wrapped_ops.h"

#include <cstdint>

namespace autocfg {

void WrappedOps::Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c,
                        bool accumulate, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.Matmul(a, ta, b, tb, c, accumulate, stream); });
}

void WrappedOps::MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
                            Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.MatmulBias(a, b, bias, c, stream); });
}

void WrappedOps::MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                                const Tensor& c, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.MatmulResidual(a, b, bias, residual, c, stream); });
}

void WrappedOps::MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                                  const Tensor& pre, const Tensor& y, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.MatmulActivation(activation, a, b, bias, pre, y, stream); });
}

void WrappedOps::MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b,
                                          const Tensor& pre, const Tensor& dpre, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.MatmulActivationBackward(activation, dy, b, pre, dpre, stream); });
}

void WrappedOps::MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                                    bool accumulate, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.MatmulBiasGradient(x, dy, dw, dbias, accumulate, stream); });
}

void WrappedOps::LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                                  const Tensor& y, const Tensor& mean, const Tensor& rstd, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.LayerNormForward(x, gamma, beta, eps, y, mean, rstd, stream); });
}

void WrappedOps::LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                   const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                                   const Tensor& dbeta, bool accumulate, Stream& stream) {
  Pass(stream, [&](Ops& ops) {
    ops.LayerNormBackward(dy, x, gamma, mean, rstd, dx, add_to_dx, dgamma, dbeta, accumulate, stream);
  });
}

void WrappedOps::RmsNormForward(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y,
                                const Tensor& rstd, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.RmsNormForward(x, gamma, eps, y, rstd, stream); });
}

void WrappedOps::RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                                 const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate,
                                 Stream& stream) {
  Pass(stream,
       [&](Ops& ops) { ops.RmsNormBackward(dy, x, gamma, rstd, dx, add_to_dx, dgamma, accumulate, stream); });
}

void WrappedOps::BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.BiasResidual(y, bias, residual, stream); });
}

void WrappedOps::ResidualAdd(const Tensor& y, const Tensor& residual, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.ResidualAdd(y, residual, stream); });
}

void WrappedOps::Scale(const Tensor& x, double factor, const Tensor& y, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.Scale(x, factor, y, stream); });
}

void WrappedOps::ActivationForward(Activation activation, const Tensor& x, const Tensor& bias,
                                   const Tensor& y, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.ActivationForward(activation, x, bias, y, stream); });
}

void WrappedOps::ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy,
                                    const Tensor& dx, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.ActivationBackward(activation, x, dy, dx, stream); });
}

void WrappedOps::HeadNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                                 const Tensor& gamma_q, const Tensor& gamma_k, double eps, const Tensor& raw,
                                 const Tensor& rstd, Stream& stream) {
  Pass(stream, [&](Ops& ops) {
    ops.HeadNormForward(qkv, heads, kv_heads, gamma_q, gamma_k, eps, raw, rstd, stream);
  });
}

void WrappedOps::HeadNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads,
                                  const Tensor& raw, const Tensor& gamma_q, const Tensor& gamma_k,
                                  const Tensor& rstd, const Tensor& dgamma_q, const Tensor& dgamma_k,
                                  bool accumulate, Stream& stream) {
  Pass(stream, [&](Ops& ops) {
    ops.HeadNormBackward(dqkv, heads, kv_heads, raw, gamma_q, gamma_k, rstd, dgamma_q, dgamma_k, accumulate,
                         stream);
  });
}

void WrappedOps::QkSquares(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& sums,
                           Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.QkSquares(qkv, heads, kv_heads, sums, stream); });
}

void WrappedOps::QkNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                               std::int64_t ranks, const Tensor& gamma_q, const Tensor& gamma_k, double eps,
                               const Tensor& raw, const Tensor& rstd, Stream& stream) {
  Pass(stream, [&](Ops& ops) {
    ops.QkNormForward(qkv, heads, kv_heads, ranks, gamma_q, gamma_k, eps, raw, rstd, stream);
  });
}

void WrappedOps::QkProducts(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                            const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                            const Tensor& products, Stream& stream) {
  Pass(stream, [&](Ops& ops) {
    ops.QkProducts(dqkv, heads, kv_heads, raw, gamma_q, gamma_k, rstd, products, stream);
  });
}

void WrappedOps::QkNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads,
                                std::int64_t ranks, const Tensor& raw, const Tensor& gamma_q,
                                const Tensor& gamma_k, const Tensor& rstd, const Tensor& products,
                                const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate,
                                Stream& stream) {
  Pass(stream, [&](Ops& ops) {
    ops.QkNormBackward(dqkv, heads, kv_heads, ranks, raw, gamma_q, gamma_k, rstd, products, dgamma_q,
                       dgamma_k, accumulate, stream);
  });
}

void WrappedOps::Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim,
                      std::int64_t rotary_dims, double theta, bool inverse, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.Rope(qkv, heads_turned, head_dim, rotary_dims, theta, inverse, stream); });
}

void WrappedOps::AttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& out,
                                  const Tensor& lse, const Tensor& workspace, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.AttentionForward(qkv, form, out, lse, workspace, stream); });
}

void WrappedOps::AttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& out,
                                   const Tensor& lse, const Tensor& dout, const Tensor& dqkv,
                                   const Tensor& workspace, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.AttentionBackward(qkv, form, out, lse, dout, dqkv, workspace, stream); });
}

void WrappedOps::UnfusedAttentionForward(const Tensor& qkv, const AttentionForm& form,
                                         const Tensor& probabilities, const Tensor& out, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.UnfusedAttentionForward(qkv, form, probabilities, out, stream); });
}

void WrappedOps::UnfusedAttentionBackward(const Tensor& qkv, const AttentionForm& form,
                                          const Tensor& probabilities, const Tensor& out, const Tensor& dout,
                                          const Tensor& dqkv, const Tensor& dscores, Stream& stream) {
  Pass(stream, [&](Ops& ops) {
    ops.UnfusedAttentionBackward(qkv, form, probabilities, out, dout, dqkv, dscores, stream);
  });
}

void WrappedOps::EmbeddingForward(const Tensor& tokens, const Tensor& table, std::int64_t vocab_start,
                                  const Tensor& out, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.EmbeddingForward(tokens, table, vocab_start, out, stream); });
}

void WrappedOps::EmbeddingBackward(const Tensor& tokens, const Tensor& dout, std::int64_t vocab_start,
                                   const Tensor& dtable, bool accumulate, Stream& stream) {
  Pass(stream,
       [&](Ops& ops) { ops.EmbeddingBackward(tokens, dout, vocab_start, dtable, accumulate, stream); });
}

void WrappedOps::PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first,
                                 const Tensor& table, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.PositionForward(y, seq_len, first, table, stream); });
}

void WrappedOps::PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.PositionBackward(dy, dtable, accumulate, stream); });
}

void WrappedOps::CrossEntropy(const Tensor& logits, std::int64_t valid, const Tensor& targets, double scale,
                              const Tensor& loss, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.CrossEntropy(logits, valid, targets, scale, loss, stream); });
}

void WrappedOps::CrossEntropyForward(const Tensor& logits, std::int64_t valid, const Tensor& targets,
                                     std::int64_t vocab_start, const Tensor& max, const Tensor& sums,
                                     Stream& stream) {
  Pass(stream,
       [&](Ops& ops) { ops.CrossEntropyForward(logits, valid, targets, vocab_start, max, sums, stream); });
}

void WrappedOps::CrossEntropyRescale(const Tensor& max, const Tensor& sums, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.CrossEntropyRescale(max, sums, stream); });
}

void WrappedOps::CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.CrossEntropyLoss(max, sums, loss, stream); });
}

void WrappedOps::CrossEntropyBackward(const Tensor& logits, std::int64_t valid, const Tensor& sums,
                                      const Tensor& targets, std::int64_t vocab_start, double scale,
                                      Stream& stream) {
  Pass(stream,
       [&](Ops& ops) { ops.CrossEntropyBackward(logits, valid, sums, targets, vocab_start, scale, stream); });
}

void WrappedOps::Fill(const Tensor& y, double value, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.Fill(y, value, stream); });
}

void WrappedOps::SumOfSquares(std::span<const Tensor> tensors, const Tensor& result, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.SumOfSquares(tensors, result, stream); });
}

void WrappedOps::AdamW(std::span<const AdamWTensor> tensors, const AdamWParams& params, Stream& stream) {
  Pass(stream, [&](Ops& ops) { ops.AdamW(tensors, params, stream); });
}

}  // namespace autocfg
