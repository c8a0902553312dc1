#include "kernels/awaited/awaited_ops.h"

#include <cstdint>
#include <utility>

#include "fmt/format.h"
#include "kernels/dry/dry_device.h"
#include "kernels/op_log.h"

namespace autocfg {
namespace {

class AwaitedOps final : public Ops {
 public:
  explicit AwaitedOps(std::unique_ptr<Ops> ops) : ops_(std::move(ops)) {}

  void Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate,
              Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.Matmul(a, ta, b, tb, c, accumulate, stream); });
  }
  void MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c,
                  Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.MatmulBias(a, b, bias, c, stream); });
  }
  void MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                      const Tensor& c, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.MatmulResidual(a, b, bias, residual, c, stream); });
  }
  void MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.MatmulActivation(activation, a, b, bias, pre, y, stream); });
  }
  void MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.MatmulActivationBackward(activation, dy, b, pre, dpre, stream); });
  }
  void MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          bool accumulate, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.MatmulBiasGradient(x, dy, dw, dbias, accumulate, stream); });
  }
  void LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.LayerNormForward(x, gamma, beta, eps, y, mean, rstd, stream); });
  }
  void LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                         const Tensor& dbeta, bool accumulate, Stream& stream) override {
    Await(stream, [&](Ops& ops) {
      ops.LayerNormBackward(dy, x, gamma, mean, rstd, dx, add_to_dx, dgamma, dbeta, accumulate, stream);
    });
  }
  void RmsNormForward(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y, const Tensor& rstd,
                      Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.RmsNormForward(x, gamma, eps, y, rstd, stream); });
  }
  void RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate,
                       Stream& stream) override {
    Await(stream, [&](Ops& ops) {
      ops.RmsNormBackward(dy, x, gamma, rstd, dx, add_to_dx, dgamma, accumulate, stream);
    });
  }
  void BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.BiasResidual(y, bias, residual, stream); });
  }
  void ResidualAdd(const Tensor& y, const Tensor& residual, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.ResidualAdd(y, residual, stream); });
  }
  void ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y,
                         Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.ActivationForward(activation, x, bias, y, stream); });
  }
  void ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx,
                          Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.ActivationBackward(activation, x, dy, dx, stream); });
  }
  void Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim, double theta, bool inverse,
            Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.Rope(qkv, heads_turned, head_dim, theta, inverse, stream); });
  }
  void AttentionForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& out,
                        const Tensor& lse, const Tensor& workspace, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.AttentionForward(qkv, heads, kv_heads, out, lse, workspace, stream); });
  }
  void AttentionBackward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& out,
                         const Tensor& lse, const Tensor& dout, const Tensor& dqkv, const Tensor& workspace,
                         Stream& stream) override {
    Await(stream, [&](Ops& ops) {
      ops.AttentionBackward(qkv, heads, kv_heads, out, lse, dout, dqkv, workspace, stream);
    });
  }
  void UnfusedAttentionForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                               const Tensor& probabilities, const Tensor& out, Stream& stream) override {
    Await(stream,
          [&](Ops& ops) { ops.UnfusedAttentionForward(qkv, heads, kv_heads, probabilities, out, stream); });
  }
  void UnfusedAttentionBackward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                                const Tensor& probabilities, const Tensor& out, const Tensor& dout,
                                const Tensor& dqkv, const Tensor& dscores, Stream& stream) override {
    Await(stream, [&](Ops& ops) {
      ops.UnfusedAttentionBackward(qkv, heads, kv_heads, probabilities, out, dout, dqkv, dscores, stream);
    });
  }
  void EmbeddingForward(const Tensor& tokens, const Tensor& table, std::int64_t vocab_start,
                        const Tensor& out, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.EmbeddingForward(tokens, table, vocab_start, out, stream); });
  }
  void EmbeddingBackward(const Tensor& tokens, const Tensor& dout, std::int64_t vocab_start,
                         const Tensor& dtable, bool accumulate, Stream& stream) override {
    Await(stream,
          [&](Ops& ops) { ops.EmbeddingBackward(tokens, dout, vocab_start, dtable, accumulate, stream); });
  }
  void PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first, const Tensor& table,
                       Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.PositionForward(y, seq_len, first, table, stream); });
  }
  void PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.PositionBackward(dy, dtable, accumulate, stream); });
  }
  void CrossEntropy(const Tensor& logits, std::int64_t valid, const Tensor& targets, double scale,
                    const Tensor& loss, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.CrossEntropy(logits, valid, targets, scale, loss, stream); });
  }
  void CrossEntropyForward(const Tensor& logits, std::int64_t valid, const Tensor& targets,
                           std::int64_t vocab_start, const Tensor& max, const Tensor& sums,
                           Stream& stream) override {
    Await(stream,
          [&](Ops& ops) { ops.CrossEntropyForward(logits, valid, targets, vocab_start, max, sums, stream); });
  }
  void CrossEntropyRescale(const Tensor& max, const Tensor& sums, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.CrossEntropyRescale(max, sums, stream); });
  }
  void CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.CrossEntropyLoss(max, sums, loss, stream); });
  }
  void CrossEntropyBackward(const Tensor& logits, std::int64_t valid, const Tensor& sums,
                            const Tensor& targets, std::int64_t vocab_start, double scale,
                            Stream& stream) override {
    Await(stream, [&](Ops& ops) {
      ops.CrossEntropyBackward(logits, valid, sums, targets, vocab_start, scale, stream);
    });
  }
  void Fill(const Tensor& y, double value, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.Fill(y, value, stream); });
  }
  void SumOfSquares(std::span<const Tensor> tensors, const Tensor& result, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.SumOfSquares(tensors, result, stream); });
  }
  void AdamW(std::span<const AdamWTensor> tensors, const AdamWParams& params, Stream& stream) override {
    Await(stream, [&](Ops& ops) { ops.AdamW(tensors, params, stream); });
  }
  void ReleaseSpare() override { ops_->ReleaseSpare(); }

 private:
  template <typename Issue>
  void Await(Stream& stream, const Issue& issue) {
    ++number_;
    try {
      issue(*ops_);
      stream.Synchronize();
    } catch (const DeviceOutOfMemory&) {
      throw;  // says what did not fit
    } catch (const DeviceError& error) {
      throw DeviceError(fmt::format("op {} of this rank, {}: {}", number_, Described(issue), error.what()));
    }
  }

  // Returns the op that the dry device records.
  template <typename Issue>
  static std::string Described(const Issue& issue) {
    OpLog log;
    issue(*CreateDryOps(log));
    return log.ops().empty() ? "an op on an empty list" : ToString(log.ops().front());
  }

  const std::unique_ptr<Ops> ops_;
  std::int64_t number_ = 0;
};

}  // namespace

std::unique_ptr<Ops> CreateAwaitedOps(std::unique_ptr<Ops> ops) {
  return std::make_unique<AwaitedOps>(std::move(ops));
}

}  // namespace autocfg
