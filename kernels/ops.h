// The numerical operations of the training engine, on one device. Every op is issued on a stream, takes views of the arena,
// and allocates nothing. One object per rank; use from one thread.
//
// Shapes: T tokens (= B x S), B micro batch, S sequence, H row width, N local heads, D head dimension, V local (padded)
// vocabulary. Types: all tensors of an op have its compute type, except statistics (`Precision::statistics`), token ids (kI32), gradients of
// parameters (`Precision::gradients`). "+=" accumulates. Requires what each comment says; a shape that breaks it throws
// std::invalid_argument on every implementation.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/tensor.h"
#include "search/ops/op_desc.h"

namespace autocfg {

enum class Transpose : bool { kNo, kYes };

struct AdamWParams {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;    // decoupled: p -= lr * weight_decay * p
  double bias_correction1 = 1;  // 1 - beta1^t
  double bias_correction2 = 1;  // 1 - beta2^t
  double grad_scale = 1;        // the clip factor
};

class Ops {
 public:
  virtual ~Ops() = default;

  // c[m,n] (= or +=) op(a)[m,k] op(b)[k,n], all of rank 2. `a` is [k,m] where transposed, `b` is [n,k].
  virtual void Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c, bool accumulate,
                      Stream& stream) = 0;

  // y = (x - mean) * rstd * gamma + beta, by row of x[T,H]; mean[T], rstd[T] = 1/sqrt(var + eps) are kept for the backward.
  virtual void LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps, const Tensor& y,
                                const Tensor& mean, const Tensor& rstd, Stream& stream) = 0;
  // dx (= or, with add_to_dx, +=) gradient by x; dgamma[H] +=, dbeta[H] +=. dx may be dy only when add_to_dx is false.
  virtual void LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                 const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                                 const Tensor& dbeta, Stream& stream) = 0;

  // y[T,W] += bias[W].
  virtual void BiasAdd(const Tensor& y, const Tensor& bias, Stream& stream) = 0;
  // y[T,W] += bias[W] + residual[T,W].
  virtual void BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual, Stream& stream) = 0;
  // dbias[W] += column sums of dy[T,W].
  virtual void BiasGradient(const Tensor& dy, const Tensor& dbias, Stream& stream) = 0;
  // x[T,W] += bias[W]; y = gelu(x), the tanh form (Hendrycks & Gimpel 2016).
  virtual void BiasGelu(const Tensor& x, const Tensor& bias, const Tensor& y, Stream& stream) = 0;
  // dy[T,W] *= gelu'(x): dy becomes the gradient by x (bias included).
  virtual void GeluBackward(const Tensor& x, const Tensor& dy, Stream& stream) = 0;

  // Causal attention, scale 1/sqrt(D). qkv[B,S,3*N*D] holds for each token q of all N heads, then k, then v; out[B,S,N*D]; lse[B,N,S] the
  // log-sum-exp of each row of scaled scores. Stores no scores (Dao et al. 2022). `workspace` holds at least
  // AttentionWorkspaceElements(S, D) elements.
  virtual void AttentionForward(const Tensor& qkv, std::int64_t heads, const Tensor& out, const Tensor& lse,
                                const Tensor& workspace, Stream& stream) = 0;
  // dqkv = gradient by qkv, given dout and what the forward left.
  virtual void AttentionBackward(const Tensor& qkv, std::int64_t heads, const Tensor& out, const Tensor& lse,
                                 const Tensor& dout, const Tensor& dqkv, const Tensor& workspace, Stream& stream) = 0;

  // out[T,H] = row tokens[t] - vocab_start of table[V,H] where that row is in the table, else 0.
  virtual void EmbeddingForward(const Tensor& tokens, const Tensor& table, std::int64_t vocab_start, const Tensor& out,
                                Stream& stream) = 0;
  // dtable[row] += dout[t] for the rows in the table.
  virtual void EmbeddingBackward(const Tensor& tokens, const Tensor& dout, std::int64_t vocab_start, const Tensor& dtable,
                                 Stream& stream) = 0;
  // y[B,S,H] += table[s] (table[P,H], P >= S).   /   dtable[s] += sum over B of dy[b,s].
  virtual void PositionForward(const Tensor& y, const Tensor& table, Stream& stream) = 0;
  virtual void PositionBackward(const Tensor& dy, const Tensor& dtable, Stream& stream) = 0;

  // Vocabulary-parallel cross-entropy (Shoeybi et al. 2019), in three steps with a reduction over the tensor group after the first two.
  // `valid` columns of logits[T,V] are real, the rest padding.
  // 1. max[T] = row maximum over the valid columns (the lowest finite value where valid is 0).
  virtual void CrossEntropyMax(const Tensor& logits, std::int64_t valid, const Tensor& max, Stream& stream) = 0;
  // 2. logits become exp(logits - max), 0 in the padding; sums[0,t] = their row sum; sums[1,t] = logit - max of the target, 0 where the
  //    target is another rank's. sums[2,T].
  virtual void CrossEntropySum(const Tensor& logits, std::int64_t valid, const Tensor& max, const Tensor& targets,
                               std::int64_t vocab_start, const Tensor& sums, Stream& stream) = 0;
  // 3. loss[1] (kF64) += sum over t of log(sums[0,t]) - sums[1,t], with reduced sums.
  virtual void CrossEntropyLoss(const Tensor& sums, const Tensor& loss, Stream& stream) = 0;
  // logits (the exponentials of step 2) become scale * (softmax - one_hot(target)): the gradient by the logits.
  virtual void CrossEntropyBackward(const Tensor& logits, const Tensor& sums, const Tensor& targets,
                                    std::int64_t vocab_start, double scale, Stream& stream) = 0;

  // y = value, any shape.
  virtual void Fill(const Tensor& y, double value, Stream& stream) = 0;
  // result[1] (kF64) += sum of squares of x, any shape; accumulated in double precision.
  virtual void SumOfSquares(const Tensor& x, const Tensor& result, Stream& stream) = 0;
  // One AdamW update (Loshchilov & Hutter 2019) of all elements; m, v in the optimizer's type.
  virtual void AdamW(const Tensor& param, const Tensor& grad, const Tensor& m, const Tensor& v, const AdamWParams& params,
                     Stream& stream) = 0;
};

// Elements of the statistics type that attention needs beside its operands; shared by all implementations, so that the memory model can
// count it: two blocks of scores of min(S, 128) rows, and one row vector.
constexpr std::int64_t AttentionWorkspaceElements(std::int64_t seq_len, std::int64_t /*head_dim*/) {
  const std::int64_t rows = seq_len < 128 ? seq_len : 128;
  return 2 * rows * seq_len + seq_len;
}

}  // namespace autocfg
