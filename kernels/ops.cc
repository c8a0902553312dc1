#include "kernels/ops.h"

namespace autocfg {
namespace {

OpDesc Product(Epilogue epilogue, bool bias = false, Activation activation = Activation::kGelu) {
  OpDesc desc{.bias = bias, .activation = activation};
  SetEpilogue(desc, epilogue);
  return desc;
}

// Returns the descriptor of an op with dims {T, N, D, G}; T and D follow from its operands.
OpDesc OfHeads(OpKind kind, std::int64_t heads, std::int64_t kv_heads, bool accumulate = false) {
  return {.kind = kind, .accumulate = accumulate, .dims = {0, heads, 0, kv_heads}};
}

OpDesc OfScores(OpKind kind, const AttentionForm& form) {
  return {.kind = kind,
          .window = form.window,
          .alibi = form.HasAlibi(),
          .softcap = form.softcap != 0,
          .dims = {0, 0, form.heads, 0, form.kv_heads}};
}

OpDesc OfLogits(OpKind kind, const LogitForm& form) { return {.kind = kind, .softcap = form.softcap != 0}; }

}  // namespace

void Ops::Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c,
                 bool accumulate, Stream& stream) {
  Issue({.desc = {.transpose_a = ta == Transpose::kYes,
                  .transpose_b = tb == Transpose::kYes,
                  .accumulate = accumulate},
         .operands = {&a, &b, &c}},
        stream);
}

void Ops::MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c, Stream& stream) {
  Issue({.desc = Product(Epilogue::kBias), .operands = {&a, &b, &bias, &c}}, stream);
}

void Ops::MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                         const Tensor& c, Stream& stream) {
  Issue({.desc = Product(Epilogue::kResidual, bias.IsPresent()), .operands = {&a, &b, &bias, &residual, &c}},
        stream);
}

void Ops::MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                           const Tensor& pre, const Tensor& y, Stream& stream) {
  Issue({.desc = Product(Epilogue::kActivation, bias.IsPresent(), activation),
         .operands = {&a, &b, &bias, &pre, &y}},
        stream);
}

void Ops::MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b,
                                   const Tensor& pre, const Tensor& dpre, Stream& stream) {
  Issue(
      {.desc = Product(Epilogue::kActivationGradient, false, activation), .operands = {&dy, &b, &pre, &dpre}},
      stream);
}

void Ops::MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                             bool accumulate, Stream& stream) {
  OpDesc desc = Product(Epilogue::kBiasGradient);
  desc.accumulate = accumulate;
  Issue({.desc = desc, .operands = {&x, &dy, &dw, &dbias}}, stream);
}

void Ops::LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                           const Tensor& y, const Tensor& mean, const Tensor& rstd, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kLayerNormForward},
         .operands = {&x, &gamma, &beta, &y, &mean, &rstd},
         .args = {.eps = eps}},
        stream);
}

void Ops::LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                            const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                            const Tensor& dbeta, bool accumulate, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kLayerNormBackward, .accumulate = accumulate},
         .operands = {&dy, &x, &gamma, &mean, &rstd, &dx, &dgamma, &dbeta},
         .args = {.add_to_dx = add_to_dx}},
        stream);
}

void Ops::RmsNormForward(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y,
                         const Tensor& rstd, Stream& stream) {
  Issue(
      {.desc = {.kind = OpKind::kRmsNormForward}, .operands = {&x, &gamma, &y, &rstd}, .args = {.eps = eps}},
      stream);
}

void Ops::RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                          const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate,
                          Stream& stream) {
  Issue({.desc = {.kind = OpKind::kRmsNormBackward, .accumulate = accumulate},
         .operands = {&dy, &x, &gamma, &rstd, &dx, &dgamma},
         .args = {.add_to_dx = add_to_dx}},
        stream);
}

void Ops::BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kBiasResidual}, .operands = {&y, &bias, &residual}}, stream);
}

void Ops::ResidualAdd(const Tensor& y, const Tensor& residual, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kResidualAdd}, .operands = {&y, &residual}}, stream);
}

void Ops::Scale(const Tensor& x, double factor, const Tensor& y, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kScale}, .operands = {&x, &y}, .args = {.factor = factor}}, stream);
}

void Ops::TakeColumns(const Tensor& x, std::int64_t first, const Tensor& y, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kCopyColumns}, .operands = {&y, &x}, .args = {.first = first}}, stream);
}

void Ops::PutColumns(const Tensor& x, const Tensor& y, std::int64_t first, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kCopyColumns},
         .operands = {&x, &y},
         .args = {.inverse = true, .first = first}},
        stream);
}

void Ops::ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y,
                            Stream& stream) {
  Issue({.desc = {.kind = OpKind::kActivationForward, .bias = bias.IsPresent(), .activation = activation},
         .operands = {&x, &bias, &y}},
        stream);
}

void Ops::ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx,
                             Stream& stream) {
  Issue({.desc = {.kind = OpKind::kActivationBackward, .activation = activation}, .operands = {&x, &dy, &dx}},
        stream);
}

void Ops::HeadNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& gamma_q,
                          const Tensor& gamma_k, double eps, const Tensor& raw, const Tensor& rstd,
                          Stream& stream) {
  Issue({.desc = OfHeads(OpKind::kHeadNormForward, heads, kv_heads),
         .operands = {&qkv, &gamma_q, &gamma_k, &raw, &rstd},
         .args = {.eps = eps}},
        stream);
}

void Ops::HeadNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                           const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                           const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate, Stream& stream) {
  Issue({.desc = OfHeads(OpKind::kHeadNormBackward, heads, kv_heads, accumulate),
         .operands = {&dqkv, &raw, &gamma_q, &gamma_k, &rstd, &dgamma_q, &dgamma_k}},
        stream);
}

void Ops::QkSquares(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& sums,
                    Stream& stream) {
  Issue({.desc = OfHeads(OpKind::kQkSquares, heads, kv_heads), .operands = {&qkv, &sums}}, stream);
}

void Ops::QkNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                        const Tensor& gamma_q, const Tensor& gamma_k, double eps, const Tensor& raw,
                        const Tensor& rstd, Stream& stream) {
  Issue({.desc = OfHeads(OpKind::kQkNormForward, heads, kv_heads),
         .operands = {&qkv, &gamma_q, &gamma_k, &raw, &rstd},
         .args = {.eps = eps, .ranks = ranks}},
        stream);
}

void Ops::QkProducts(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                     const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd, const Tensor& products,
                     Stream& stream) {
  Issue({.desc = OfHeads(OpKind::kQkProducts, heads, kv_heads),
         .operands = {&dqkv, &raw, &gamma_q, &gamma_k, &rstd, &products}},
        stream);
}

void Ops::QkNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                         const Tensor& raw, const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                         const Tensor& products, const Tensor& dgamma_q, const Tensor& dgamma_k,
                         bool accumulate, Stream& stream) {
  Issue({.desc = OfHeads(OpKind::kQkNormBackward, heads, kv_heads, accumulate),
         .operands = {&dqkv, &raw, &gamma_q, &gamma_k, &rstd, &products, &dgamma_q, &dgamma_k},
         .args = {.ranks = ranks}},
        stream);
}

void Ops::Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim, std::int64_t rotary_dims,
               const RotaryFrequencies& frequencies, bool inverse, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kRope, .dims = {0, heads_turned, head_dim, rotary_dims}},
         .operands = {&qkv},
         .args = {.inverse = inverse, .frequencies = &frequencies}},
        stream);
}

void Ops::AttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                           const Tensor& workspace, Stream& stream) {
  Issue({.desc = OfScores(OpKind::kAttentionForward, form),
         .operands = {&qkv, &out, &lse, &workspace},
         .args = {.form = form}},
        stream);
}

void Ops::AttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& out,
                            const Tensor& lse, const Tensor& dout, const Tensor& dqkv,
                            const Tensor& workspace, Stream& stream) {
  Issue({.desc = OfScores(OpKind::kAttentionBackward, form),
         .operands = {&qkv, &out, &lse, &dout, &dqkv, &workspace},
         .args = {.form = form}},
        stream);
}

void Ops::UnfusedAttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                                  const Tensor& out, Stream& stream) {
  Issue({.desc = OfScores(OpKind::kUnfusedAttentionForward, form),
         .operands = {&qkv, &probabilities, &out},
         .args = {.form = form}},
        stream);
}

void Ops::UnfusedAttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                                   const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                                   const Tensor& dscores, Stream& stream) {
  Issue({.desc = OfScores(OpKind::kUnfusedAttentionBackward, form),
         .operands = {&qkv, &probabilities, &out, &dout, &dqkv, &dscores},
         .args = {.form = form}},
        stream);
}

void Ops::EmbeddingForward(const Tensor& tokens, const Tensor& table, std::int64_t vocab_start,
                           const Tensor& out, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kEmbeddingForward},
         .operands = {&tokens, &table, &out},
         .args = {.vocab_start = vocab_start}},
        stream);
}

void Ops::EmbeddingBackward(const Tensor& tokens, const Tensor& dout, std::int64_t vocab_start,
                            const Tensor& dtable, bool accumulate, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kEmbeddingBackward, .accumulate = accumulate},
         .operands = {&tokens, &dout, &dtable},
         .args = {.vocab_start = vocab_start}},
        stream);
}

void Ops::PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first, const Tensor& table,
                          Stream& stream) {
  Issue({.desc = {.kind = OpKind::kPositionForward},
         .operands = {&y, &table},
         .args = {.seq_len = seq_len, .first = first}},
        stream);
}

void Ops::PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kPositionBackward, .accumulate = accumulate}, .operands = {&dy, &dtable}},
        stream);
}

void Ops::CrossEntropy(const Tensor& logits, const LogitForm& form, const Tensor& targets, double scale,
                       const Tensor& loss, Stream& stream) {
  Issue({.desc = OfLogits(OpKind::kCrossEntropy, form),
         .operands = {&logits, &targets, &loss},
         .args = {.scale = scale, .softcap = form.softcap, .valid = form.valid}},
        stream);
}

void Ops::CrossEntropyForward(const Tensor& logits, const LogitForm& form, const Tensor& targets,
                              std::int64_t vocab_start, const Tensor& max, const Tensor& sums,
                              Stream& stream) {
  Issue({.desc = OfLogits(OpKind::kCrossEntropyForward, form),
         .operands = {&logits, &targets, &max, &sums},
         .args = {.softcap = form.softcap, .valid = form.valid, .vocab_start = vocab_start}},
        stream);
}

void Ops::CrossEntropyRescale(const Tensor& max, const Tensor& sums, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kCrossEntropyRescale}, .operands = {&max, &sums}}, stream);
}

void Ops::CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kCrossEntropyLoss}, .operands = {&max, &sums, &loss}}, stream);
}

void Ops::CrossEntropyBackward(const Tensor& logits, const LogitForm& form, const Tensor& sums,
                               const Tensor& targets, std::int64_t vocab_start, double scale,
                               Stream& stream) {
  Issue({.desc = OfLogits(OpKind::kCrossEntropyBackward, form),
         .operands = {&logits, &sums, &targets},
         .args = {.scale = scale, .softcap = form.softcap, .valid = form.valid, .vocab_start = vocab_start}},
        stream);
}

void Ops::Fill(const Tensor& y, double value, Stream& stream) {
  Issue({.desc = {.kind = OpKind::kFill}, .operands = {&y}, .args = {.value = value}}, stream);
}

void Ops::SumOfSquares(std::span<const Tensor> tensors, const Tensor& result, Stream& stream) {
  if (tensors.empty()) return;
  Issue({.desc = {.kind = OpKind::kSumOfSquares}, .operands = {tensors.data(), &result}, .summed = tensors},
        stream);
}

void Ops::AdamW(std::span<const UpdatedTensor> tensors, const UpdateParams& params, Stream& stream) {
  IssueUpdate(OpKind::kAdamW, tensors, params, stream);
}

void Ops::Sgd(std::span<const UpdatedTensor> tensors, const UpdateParams& params, Stream& stream) {
  IssueUpdate(OpKind::kSgd, tensors, params, stream);
}

void Ops::IssueUpdate(OpKind kind, std::span<const UpdatedTensor> tensors, const UpdateParams& params,
                      Stream& stream) {
  if (tensors.empty()) return;
  const UpdatedTensor& first = tensors.front();
  OpDesc desc{.kind = kind};
  // Whether they are there decides which operands are checked.
  if (first.m.IsPresent()) desc.moments = first.m.dtype;
  if (first.master.IsPresent()) desc.master = first.master.dtype;
  Issue({.desc = desc,
         .operands = {&first.param, &first.grad, &first.master, &first.m, &first.v},
         .updated = tensors,
         .params = &params},
        stream);
}

}  // namespace autocfg
