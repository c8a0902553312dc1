// The shape checks that all implementations of Ops share, and the descriptor that each op records. Each
// function throws std::invalid_argument if the op's requirements do not hold, else returns its OpDesc.
// Thread-safe.
#pragma once

#include "kernels/ops.h"

namespace autocfg::op_check {

OpDesc Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate);
OpDesc MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c);
OpDesc MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y);
OpDesc MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre);
OpDesc MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                      const Tensor& c);
OpDesc MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          bool accumulate);
OpDesc LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd);
OpDesc LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                         const Tensor& dbeta, bool accumulate);
OpDesc RmsNormForward(const Tensor& x, const Tensor& gamma, const Tensor& y, const Tensor& rstd);
OpDesc RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate);
OpDesc BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual);
OpDesc ResidualAdd(const Tensor& y, const Tensor& residual);
OpDesc Scale(const Tensor& x, double factor, const Tensor& y);
OpDesc ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y);
OpDesc ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx);
OpDesc HeadNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& gamma_q,
                       const Tensor& gamma_k, const Tensor& raw, const Tensor& rstd);
OpDesc HeadNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                        const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                        const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate);
OpDesc QkSquares(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& sums);
OpDesc QkNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                     const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& raw, const Tensor& rstd);
OpDesc QkProducts(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                  const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd, const Tensor& products);
OpDesc QkNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                      const Tensor& raw, const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                      const Tensor& products, const Tensor& dgamma_q, const Tensor& dgamma_k,
                      bool accumulate);
OpDesc Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim, std::int64_t rotary_dims,
            double theta);
OpDesc AttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                        const Tensor& workspace);
OpDesc AttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                         const Tensor& dout, const Tensor& dqkv, const Tensor& workspace);
OpDesc UnfusedAttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                               const Tensor& out);
OpDesc UnfusedAttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                                const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                                const Tensor& dscores);
OpDesc EmbeddingForward(const Tensor& tokens, const Tensor& table, const Tensor& out);
OpDesc EmbeddingBackward(const Tensor& tokens, const Tensor& dout, const Tensor& dtable, bool accumulate);
OpDesc PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first, const Tensor& table);
OpDesc PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate);
OpDesc CrossEntropy(const Tensor& logits, std::int64_t valid, const Tensor& targets, const Tensor& loss);
OpDesc CrossEntropyForward(const Tensor& logits, std::int64_t valid, const Tensor& targets, const Tensor& max,
                           const Tensor& sums);
OpDesc CrossEntropyRescale(const Tensor& max, const Tensor& sums);
OpDesc CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss);
OpDesc CrossEntropyBackward(const Tensor& logits, std::int64_t valid, const Tensor& sums,
                            const Tensor& targets);
OpDesc Fill(const Tensor& y);
// Both require at least one tensor; an empty list is no op.
OpDesc SumOfSquares(std::span<const Tensor> tensors, const Tensor& result);
OpDesc AdamW(std::span<const AdamWTensor> tensors, const AdamWParams& params);

}  // namespace autocfg::op_check
