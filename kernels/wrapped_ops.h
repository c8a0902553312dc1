// Ops that pass each op on to other ops, through one function. What does something around every op derives
// from this class, and a new op needs no change there.
#pragma once

#include <functional>

#include "kernels/ops.h"

namespace autocfg {

class WrappedOps : public Ops {
 public:
  void Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate,
              Stream& stream) override;
  void MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
                  Stream& stream) override;
  void MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                      const Tensor& c, Stream& stream) override;
  void MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y, Stream& stream) override;
  void MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre, Stream& stream) override;
  void MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          bool accumulate, Stream& stream) override;
  void LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd, Stream& stream) override;
  void LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                         const Tensor& dbeta, bool accumulate, Stream& stream) override;
  void RmsNormForward(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y, const Tensor& rstd,
                      Stream& stream) override;
  void RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate,
                       Stream& stream) override;
  void BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual, Stream& stream) override;
  void ResidualAdd(const Tensor& y, const Tensor& residual, Stream& stream) override;
  void Scale(const Tensor& x, double factor, const Tensor& y, Stream& stream) override;
  void ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y,
                         Stream& stream) override;
  void ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx,
                          Stream& stream) override;
  void HeadNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& gamma_q,
                       const Tensor& gamma_k, double eps, const Tensor& raw, const Tensor& rstd,
                       Stream& stream) override;
  void HeadNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                        const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                        const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate,
                        Stream& stream) override;
  void QkSquares(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& sums,
                 Stream& stream) override;
  void QkNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                     const Tensor& gamma_q, const Tensor& gamma_k, double eps, const Tensor& raw,
                     const Tensor& rstd, Stream& stream) override;
  void QkProducts(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                  const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd, const Tensor& products,
                  Stream& stream) override;
  void QkNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                      const Tensor& raw, const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                      const Tensor& products, const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate,
                      Stream& stream) override;
  void Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim, std::int64_t rotary_dims,
            double theta, bool inverse, Stream& stream) override;
  void AttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                        const Tensor& workspace, Stream& stream) override;
  void AttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                         const Tensor& dout, const Tensor& dqkv, const Tensor& workspace,
                         Stream& stream) override;
  void UnfusedAttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                               const Tensor& out, Stream& stream) override;
  void UnfusedAttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                                const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                                const Tensor& dscores, Stream& stream) override;
  void EmbeddingForward(const Tensor& tokens, const Tensor& table, std::int64_t vocab_start,
                        const Tensor& out, Stream& stream) override;
  void EmbeddingBackward(const Tensor& tokens, const Tensor& dout, std::int64_t vocab_start,
                         const Tensor& dtable, bool accumulate, Stream& stream) override;
  void PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first, const Tensor& table,
                       Stream& stream) override;
  void PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate, Stream& stream) override;
  void CrossEntropy(const Tensor& logits, std::int64_t valid, const Tensor& targets, double scale,
                    const Tensor& loss, Stream& stream) override;
  void CrossEntropyForward(const Tensor& logits, std::int64_t valid, const Tensor& targets,
                           std::int64_t vocab_start, const Tensor& max, const Tensor& sums,
                           Stream& stream) override;
  void CrossEntropyRescale(const Tensor& max, const Tensor& sums, Stream& stream) override;
  void CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss, Stream& stream) override;
  void CrossEntropyBackward(const Tensor& logits, std::int64_t valid, const Tensor& sums,
                            const Tensor& targets, std::int64_t vocab_start, double scale,
                            Stream& stream) override;
  void Fill(const Tensor& y, double value, Stream& stream) override;
  void SumOfSquares(std::span<const Tensor> tensors, const Tensor& result, Stream& stream) override;
  void AdamW(std::span<const AdamWTensor> tensors, const AdamWParams& params, Stream& stream) override;
  void ReleaseSpare() override { ops_.ReleaseSpare(); }

 protected:
  // Issues the op that was called on the ops given to it.
  using Issue = std::function<void(Ops&)>;

  // `ops` must outlive the object.
  explicit WrappedOps(Ops& ops) : ops_(ops) {}

  // Called in place of each op on a stream.
  virtual void Pass(Stream& stream, const Issue& issue) = 0;

  Ops& ops() const { return ops_; }

 private:
  Ops& ops_;
};

}  // namespace autocfg
