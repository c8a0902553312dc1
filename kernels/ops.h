// The numerical operations of the training engine on one device. Every op is issued on a stream, takes views
// of the arena and allocates nothing. One object per rank, used from one thread.
//
// Shapes: T tokens (= B x S), B micro batch, S sequence, H row width, N local heads, G local key-value heads,
// D head dimension, Q = (N + 2G) D, F feed-forward width, V local (padded) vocabulary.
//
// Types: all tensors of an op have its compute type, except statistics (`Precision::statistics`), token ids
// (kI32) and gradients of parameters (`Precision::gradients`). "+=" accumulates. Pass Tensor{} for an absent
// operand that is marked "or absent".
//
// A shape that violates an op's comment throws std::invalid_argument in every implementation. Each method
// describes its op as a call (op_call.h); devices, and what does something around every op, implement Run.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "kernels/op_call.h"

namespace autocfg {

class Ops {
 public:
  virtual ~Ops() = default;

  // c[m,n] (= or +=) op(a)[m,k] op(b)[k,n], all of rank 2. A transposed `a` is [k,m]; a transposed `b` is
  // [n,k].
  void Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate,
              Stream& stream);
  // Products of a linear layer, each fused with its epilogue into one op (search/ops/op_desc.h: Epilogue).
  // c[m,n] = a[m,k] b[k,n] + bias[n].
  void MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c, Stream& stream);
  // c[m,n] = a[m,k] b[k,n] + bias[n] (or absent) + residual[m,n]. c is not residual.
  void MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                      const Tensor& c, Stream& stream);
  // pre[m,n] = a[m,k] b[k,n] + bias[n] (or absent); y[m,n] = f(pre). The activation is not gated; y is not
  // pre.
  void MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y, Stream& stream);
  // dpre[m,n] = (dy[m,k] b^T) * f'(pre[m,n]), where b is [n,k]. This is the gradient with respect to the
  // `pre` of MatmulActivation, through the following product with b that consumed its y. The activation is
  // not gated; dpre is not pre.
  void MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre, Stream& stream);
  // dw[k,n] (= or +=) x[m,k]^T dy[m,n]; dbias[n] (= or +=) column sums of dy.
  void MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          bool accumulate, Stream& stream);

  // y = (x - mean) * rstd * gamma + beta, per row of x[T,H]. mean[T] and rstd[T] = 1/sqrt(var + eps) are
  // saved for the backward.
  void LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd, Stream& stream);
  // dx (=, or += if add_to_dx) the gradient with respect to x; dgamma[H], dbeta[H] (=, or += if accumulate)
  // those of the parameters. dx may alias dy only if add_to_dx is false.
  void LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                         const Tensor& dbeta, bool accumulate, Stream& stream);

  // y = x * rstd * gamma, per row of x[T,H]. rstd[T] = 1/sqrt(mean(x^2) + eps) is saved for the backward
  // (Zhang & Sennrich 2019).
  void RmsNormForward(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y, const Tensor& rstd,
                      Stream& stream);
  // dx (=, or += if add_to_dx) the gradient with respect to x; dgamma[H] (=, or += if accumulate). dx may
  // alias dy only if add_to_dx is false.
  void RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate,
                       Stream& stream);

  // y[T,W] += bias[W] + residual[T,W].
  void BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual, Stream& stream);
  // y[T,W] += residual[T,W].
  void ResidualAdd(const Tensor& y, const Tensor& residual, Stream& stream);
  // y[T,W] = x[T,W] * factor, which is finite. y may be x.
  void Scale(const Tensor& x, double factor, const Tensor& y, Stream& stream);
  // y[T,W] = columns [first, first + W) of x, which is at least as wide.
  void TakeColumns(const Tensor& x, std::int64_t first, const Tensor& y, Stream& stream);
  // Columns [first, first + W) of y, which is at least as wide, = x[T,W].
  void PutColumns(const Tensor& x, const Tensor& y, std::int64_t first, Stream& stream);
  // Activations (search/ops/activation.h) apart from a product. Gated: x[T,2F] += bias[2F] (or absent);
  // y[T,F] = f(gate) * up, where the first F columns of x are the gates and the last F are the ups. Others:
  // x[T,F] += bias[F] (or absent); y[T,F] = f(x). y is not x.
  void ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y,
                         Stream& stream);
  // dx[T,2F] = the gradient with respect to the x (bias included) of a gated activation, given dy[T,F] and
  // the x that the forward wrote. dx is not dy. That of others is an epilogue (MatmulActivationBackward).
  void ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx,
                          Stream& stream);

  // RMS norms of the queries and keys of each head, in place (Henry et al. 2020 normalize them; Dehghani et
  // al. 2023 by norms with weights). qkv[T,Q] as in attention. Each of the first N + G heads of a row, x,
  // becomes x * rstd * gamma, where gamma is gamma_q[D] for q and gamma_k[D] for k. What they were,
  // raw[T,(N+G)D], and rstd[T,N+G] = 1/sqrt(mean(x^2) + eps) are saved for the backward.
  void HeadNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& gamma_q,
                       const Tensor& gamma_k, double eps, const Tensor& raw, const Tensor& rstd,
                       Stream& stream);
  // Replaces the columns of q and k of dqkv[T,Q], the gradient with respect to the norms' results, by that
  // with respect to what they read. dgamma_q[D], dgamma_k[D] (=, or += if accumulate).
  void HeadNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                        const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                        const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate, Stream& stream);

  // RMS norms of all queries of a token, and of all its keys (OLMo 2, Walsh et al. 2024), in place. A tensor
  // group of `ranks` ranks has the heads, so each direction has two steps, with a sum over the group between
  // them.
  //
  // 1. sums[T,2] = the sum of squares of the columns of q, and that of k, of each row of qkv[T,Q].
  void QkSquares(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& sums,
                 Stream& stream);
  // 2. With rstd[T,2] the sums of the group: rstd = 1/sqrt(sum / width + eps), where width is ranks * N * D
  //    for q and ranks * G * D for k. q becomes q * rstd * gamma_q[N*D], k likewise. What they were,
  //    raw[T,(N+G)D], is saved with rstd for the backward.
  void QkNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                     const Tensor& gamma_q, const Tensor& gamma_k, double eps, const Tensor& raw,
                     const Tensor& rstd, Stream& stream);
  // Backward, 1. products[T,2] = the sum of dy * gamma * x * rstd over q, and over k, where dqkv[T,Q] holds
  // dy and raw x.
  void QkProducts(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                  const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd, const Tensor& products,
                  Stream& stream);
  // 2. With products of the group: replaces the columns of q and k of dqkv by the gradient with respect to
  //    raw. dgamma_q[N*D], dgamma_k[G*D] (=, or += if accumulate).
  void QkNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                      const Tensor& raw, const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                      const Tensor& products, const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate,
                      Stream& stream);

  // Rotary position embedding (Su et al. 2021), in place, of the first heads_turned * head_dim columns of
  // each row of qkv[B,S,Q]. The first r = rotary_dims dims of each head are rotated, the others stay
  // unchanged. They are rotated in halves, as Hugging Face does: the elements (i, i + r/2) by the angle that
  // `frequencies` gives for pair i at position s of the sequence. All r are then multiplied by its factor.
  // `inverse` rotates back and multiplies likewise, which is the gradient (a rotation's transpose is its
  // inverse). r is even, from 2 to head_dim.
  void Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim, std::int64_t rotary_dims,
            const RotaryFrequencies& frequencies, bool inverse, Stream& stream);

  // Causal attention. `form` says how many heads there are, and what the scores are. For each token,
  // qkv[B,S,Q] holds q of all N heads, then k of the G key-value heads, then their v. Head h uses key-value
  // head h / (N/G) (Ainslie et al. 2023; G divides N). Writes out[B,S,N*D] and lse[B,N,S], the log-sum-exp of
  // each row of scores. Stores no scores (Dao et al. 2022). `workspace` holds at least
  // AttentionWorkspaceElements(S, D) elements (memory_sizes.h).
  void AttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                        const Tensor& workspace, Stream& stream);
  // dqkv = the gradient with respect to qkv, given dout and the results of the forward.
  void AttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                         const Tensor& dout, const Tensor& dqkv, const Tensor& workspace, Stream& stream);

  // Causal attention as above that stores its probabilities (Vaswani et al. 2017): writes out[B,S,N*D] and
  // probabilities[B,N,S,S], row by row the softmax of a query's scores, 0 for later keys. The softmax
  // is computed in at least fp32; the probabilities have the compute type.
  void UnfusedAttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                               const Tensor& out, Stream& stream);
  // dqkv = the gradient with respect to qkv, given dout and the results of the forward. dscores[B,N,S,S] is
  // room for the gradient with respect to the scores; what it holds afterwards is unspecified.
  void UnfusedAttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                                const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                                const Tensor& dscores, Stream& stream);

  // out[T,H] = row tokens[t] - vocab_start of table[V,H] if the table has that row, else 0.
  void EmbeddingForward(const Tensor& tokens, const Tensor& table, std::int64_t vocab_start,
                        const Tensor& out, Stream& stream);
  // dtable[row] += dout[t] for the rows in the table. Unless `accumulate`, dtable is 0 before.
  void EmbeddingBackward(const Tensor& tokens, const Tensor& dout, std::int64_t vocab_start,
                         const Tensor& dtable, bool accumulate, Stream& stream);
  // Forward: y[t] += table[(first + t) mod S] for y[T,H], which may be a part of the tokens, from token
  // `first` on. table is [P,H], P >= S = seq_len.
  // Backward: dtable[s] += sum over B of dy[b,s] for dy[B,S,H]. Unless `accumulate`, dtable is 0 before.
  void PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first, const Tensor& table,
                       Stream& stream);
  void PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate, Stream& stream);

  // Cross-entropy of whole rows. The first form.valid columns of logits[T,V], at least one, are real; the
  // rest is padding. Targets are in 0 .. valid - 1. With a soft cap c, y = c tanh(logits / c), else y is
  // logits.
  // loss[1] (kF64) += sum over t of log(sum of exp(y)) - y of the target.
  // logits become scale * (softmax(y) - one_hot(target)), with a soft cap times 1 - (y / c)^2: the gradient
  // with respect to the logits, 0 in the padding.
  void CrossEntropy(const Tensor& logits, const LogitForm& form, const Tensor& targets, double scale,
                    const Tensor& loss, Stream& stream);
  // Cross-entropy over a vocabulary that is split over the tensor group (Shoeybi et al. 2019). It has three
  // steps, with a reduction over the group after the first two; they leave the logits unchanged. The
  // log-sum-exp is rounded to the type of statistics; softmax is off by as much as after one more rounding of
  // the logits.
  //
  // 1. sums[0,t] = max[t] = log-sum-exp of y in this rank's valid columns (the lowest finite value if there
  //    are none); sums[1,t] = y of the target, 0 if the target belongs to another rank. sums[2,T], max[T].
  void CrossEntropyForward(const Tensor& logits, const LogitForm& form, const Tensor& targets,
                           std::int64_t vocab_start, const Tensor& max, const Tensor& sums, Stream& stream);
  // 2. sums[0,t] = exp(sums[0,t] - max[t]), with max the largest of the group.
  void CrossEntropyRescale(const Tensor& max, const Tensor& sums, Stream& stream);
  // 3. With sums of the group: sums[0,t] = max[t] + log(sums[0,t]), the log-sum-exp of the whole row; loss[1]
  //    (kF64) += sum over t of sums[0,t] - sums[1,t]. Rows without valid columns add nothing, so a rank that
  //    has
  //    only padding may run without its peers.
  void CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss, Stream& stream);
  // logits become scale * (exp(y - sums[0,t]) - one_hot(target)), with a soft cap times 1 - (y / c)^2, 0 in
  // the padding.
  void CrossEntropyBackward(const Tensor& logits, const LogitForm& form, const Tensor& sums,
                            const Tensor& targets, std::int64_t vocab_start, double scale, Stream& stream);

  // y = value, for any shape.
  void Fill(const Tensor& y, double value, Stream& stream);
  // SumOfSquares, AdamW and Sgd are each one op over all given tensors, in that order, of any shapes and of
  // one type each. An empty list issues no op. The list may go once the call returns.
  //
  // result[1] (kF64) += sum of squares of all elements, accumulated in double precision.
  void SumOfSquares(std::span<const Tensor> tensors, const Tensor& result, Stream& stream);
  // Run one update of all elements, computed in at least fp32. Moments have one floating-point type, master
  // copies one. Either all tensors have a master copy or none has. Where p is a master copy, param becomes
  // its rounded value. With g the gradient times the clip factor:
  //
  // AdamW (Loshchilov & Hutter 2019), c1 and c2 the bias corrections:
  //   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
  //   p = p (1 - lr weight_decay) - lr (m / c1) / (sqrt(v / c2) + eps), where 0 / 0 is 0
  // Sgd (momentum as Sutskever et al. 2013 in the form of PyTorch; without, m is g):
  //   m = momentum m + g + weight_decay p;  p = p - lr m
  void AdamW(std::span<const UpdatedTensor> tensors, const UpdateParams& params, Stream& stream);
  void Sgd(std::span<const UpdatedTensor> tensors, const UpdateParams& params, Stream& stream);

  // Checks a call (CheckOp) and runs it, as the methods above do with the calls that they build.
  void Issue(OpCall call, Stream& stream) {
    CheckOp(call);
    Run(call, stream);
  }

  // Runs a call that was checked. Ops that wrap others pass it on to their Run.
  virtual void Run(const OpCall& call, Stream& stream) = 0;

  // Frees the device memory that ops allocated for themselves and no longer need. Ops never free it on their
  // own, because freeing may wait for all work of the device, and so for peers. Requires that no op is in
  // flight on any stream, that is, call it between steps. Cheap if there is nothing to free.
  virtual void ReleaseSpare() {}

 private:
  void IssueUpdate(OpKind kind, std::span<const UpdatedTensor> tensors, const UpdateParams& params,
                   Stream& stream);
};

}  // namespace autocfg
