// The dry implementation of Ops. Checks and records every op; reads and writes no data.
#include "kernels/dry/dry_device.h"
#include "kernels/op_check.h"

namespace autocfg {
namespace {

class DryOps final : public Ops {
 public:
  explicit DryOps(OpSink& log) : log_(log) {}

  void Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate,
              Stream&) override {
    log_.Record(op_check::Matmul(a, ta, b, tb, c, accumulate));
  }
  void MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c, Stream&) override {
    log_.Record(op_check::MatmulBias(a, b, bias, c));
  }
  void MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y, Stream&) override {
    log_.Record(op_check::MatmulActivation(activation, a, b, bias, pre, y));
  }
  void MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre, Stream&) override {
    log_.Record(op_check::MatmulActivationBackward(activation, dy, b, pre, dpre));
  }
  void MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                      const Tensor& c, Stream&) override {
    log_.Record(op_check::MatmulResidual(a, b, bias, residual, c));
  }
  void MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          bool accumulate, Stream&) override {
    log_.Record(op_check::MatmulBiasGradient(x, dy, dw, dbias, accumulate));
  }
  void LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd, Stream&) override {
    log_.Record(op_check::LayerNormForward(x, gamma, beta, y, mean, rstd));
  }
  void LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                         const Tensor& dbeta, bool accumulate, Stream&) override {
    log_.Record(
        op_check::LayerNormBackward(dy, x, gamma, mean, rstd, dx, add_to_dx, dgamma, dbeta, accumulate));
  }
  void RmsNormForward(const Tensor& x, const Tensor& gamma, double, const Tensor& y, const Tensor& rstd,
                      Stream&) override {
    log_.Record(op_check::RmsNormForward(x, gamma, y, rstd));
  }
  void RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate,
                       Stream&) override {
    log_.Record(op_check::RmsNormBackward(dy, x, gamma, rstd, dx, add_to_dx, dgamma, accumulate));
  }
  void BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual, Stream&) override {
    log_.Record(op_check::BiasResidual(y, bias, residual));
  }
  void ResidualAdd(const Tensor& y, const Tensor& residual, Stream&) override {
    log_.Record(op_check::ResidualAdd(y, residual));
  }
  void Scale(const Tensor& x, double factor, const Tensor& y, Stream&) override {
    log_.Record(op_check::Scale(x, factor, y));
  }
  void ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y,
                         Stream&) override {
    log_.Record(op_check::ActivationForward(activation, x, bias, y));
  }
  void ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx,
                          Stream&) override {
    log_.Record(op_check::ActivationBackward(activation, x, dy, dx));
  }
  void HeadNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& gamma_q,
                       const Tensor& gamma_k, double, const Tensor& raw, const Tensor& rstd,
                       Stream&) override {
    log_.Record(op_check::HeadNormForward(qkv, heads, kv_heads, gamma_q, gamma_k, raw, rstd));
  }
  void HeadNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                        const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                        const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate, Stream&) override {
    log_.Record(op_check::HeadNormBackward(dqkv, heads, kv_heads, raw, gamma_q, gamma_k, rstd, dgamma_q,
                                           dgamma_k, accumulate));
  }
  void QkSquares(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& sums,
                 Stream&) override {
    log_.Record(op_check::QkSquares(qkv, heads, kv_heads, sums));
  }
  void QkNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                     const Tensor& gamma_q, const Tensor& gamma_k, double, const Tensor& raw,
                     const Tensor& rstd, Stream&) override {
    log_.Record(op_check::QkNormForward(qkv, heads, kv_heads, ranks, gamma_q, gamma_k, raw, rstd));
  }
  void QkProducts(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                  const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd, const Tensor& products,
                  Stream&) override {
    log_.Record(op_check::QkProducts(dqkv, heads, kv_heads, raw, gamma_q, gamma_k, rstd, products));
  }
  void QkNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                      const Tensor& raw, const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                      const Tensor& products, const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate,
                      Stream&) override {
    log_.Record(op_check::QkNormBackward(dqkv, heads, kv_heads, ranks, raw, gamma_q, gamma_k, rstd, products,
                                         dgamma_q, dgamma_k, accumulate));
  }
  void Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim, std::int64_t rotary_dims,
            double theta, bool, Stream&) override {
    log_.Record(op_check::Rope(qkv, heads_turned, head_dim, rotary_dims, theta));
  }
  void AttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                        const Tensor& workspace, Stream&) override {
    log_.Record(op_check::AttentionForward(qkv, form, out, lse, workspace));
  }
  void AttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                         const Tensor& dout, const Tensor& dqkv, const Tensor& workspace, Stream&) override {
    log_.Record(op_check::AttentionBackward(qkv, form, out, lse, dout, dqkv, workspace));
  }
  void UnfusedAttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                               const Tensor& out, Stream&) override {
    log_.Record(op_check::UnfusedAttentionForward(qkv, form, probabilities, out));
  }
  void UnfusedAttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                                const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                                const Tensor& dscores, Stream&) override {
    log_.Record(op_check::UnfusedAttentionBackward(qkv, form, probabilities, out, dout, dqkv, dscores));
  }
  void EmbeddingForward(const Tensor& tokens, const Tensor& table, std::int64_t, const Tensor& out,
                        Stream&) override {
    log_.Record(op_check::EmbeddingForward(tokens, table, out));
  }
  void EmbeddingBackward(const Tensor& tokens, const Tensor& dout, std::int64_t, const Tensor& dtable,
                         bool accumulate, Stream&) override {
    log_.Record(op_check::EmbeddingBackward(tokens, dout, dtable, accumulate));
  }
  void PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first, const Tensor& table,
                       Stream&) override {
    log_.Record(op_check::PositionForward(y, seq_len, first, table));
  }
  void PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate, Stream&) override {
    log_.Record(op_check::PositionBackward(dy, dtable, accumulate));
  }
  void CrossEntropy(const Tensor& logits, std::int64_t valid, const Tensor& targets, double,
                    const Tensor& loss, Stream&) override {
    log_.Record(op_check::CrossEntropy(logits, valid, targets, loss));
  }
  void CrossEntropyForward(const Tensor& logits, std::int64_t valid, const Tensor& targets, std::int64_t,
                           const Tensor& max, const Tensor& sums, Stream&) override {
    log_.Record(op_check::CrossEntropyForward(logits, valid, targets, max, sums));
  }
  void CrossEntropyRescale(const Tensor& max, const Tensor& sums, Stream&) override {
    log_.Record(op_check::CrossEntropyRescale(max, sums));
  }
  void CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss, Stream&) override {
    log_.Record(op_check::CrossEntropyLoss(max, sums, loss));
  }
  void CrossEntropyBackward(const Tensor& logits, std::int64_t valid, const Tensor& sums,
                            const Tensor& targets, std::int64_t, double, Stream&) override {
    log_.Record(op_check::CrossEntropyBackward(logits, valid, sums, targets));
  }
  void Fill(const Tensor& y, double, Stream&) override { log_.Record(op_check::Fill(y)); }
  void SumOfSquares(std::span<const Tensor> tensors, const Tensor& result, Stream&) override {
    if (!tensors.empty()) log_.Record(op_check::SumOfSquares(tensors, result));
  }
  void AdamW(std::span<const AdamWTensor> tensors, const AdamWParams& params, Stream&) override {
    if (!tensors.empty()) log_.Record(op_check::AdamW(tensors, params));
  }

 private:
  OpSink& log_;
};

}  // namespace

std::unique_ptr<Ops> CreateDryOps(OpSink& sink) { return std::make_unique<DryOps>(sink); }

}  // namespace autocfg
