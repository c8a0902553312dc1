#include "kernels/cuda/ops/kernel_ops.h"

#include <cmath>
#include <vector>

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/kernels/cross_entropy.h"
#include "kernels/cuda/kernels/elementwise.h"
#include "kernels/cuda/kernels/embedding.h"
#include "kernels/cuda/kernels/head_norm.h"
#include "kernels/cuda/kernels/norm.h"
#include "kernels/cuda/kernels/optimizer.h"
#include "kernels/cuda/kernels/sum.h"
#include "kernels/cuda/ops/dispatch.h"
#include "kernels/op_check.h"
#include "kernels/position_runs.h"

namespace autocfg::cuda {
namespace {

// By the driver's memset.
template <typename T>
void FillZero(T* to, std::int64_t count, cudaStream_t stream) {
  Check(cudaMemsetAsync(to, 0, static_cast<std::size_t>(count) * sizeof(T), stream), "filling with zeros");
}

}  // namespace

void KernelOps::LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps,
                                 const Tensor& y, const Tensor& mean, const Tensor& rstd, Stream& stream) {
  const OpDesc op = op_check::LayerNormForward(x, gamma, beta, y, mean, rstd);
  Dispatch(op, {&mean, &rstd}, [&]<typename T>() {
    cuda::LayerNormForward(op.dims[0], op.dims[1], x.As<const T>(), gamma.As<const T>(), beta.As<const T>(),
                           static_cast<float>(eps), y.As<T>(), mean.As<float>(), rstd.As<float>(),
                           HandleOf(stream));
  });
}

void KernelOps::LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                                  const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                                  const Tensor& dbeta, bool accumulate, Stream& stream) {
  const OpDesc op =
      op_check::LayerNormBackward(dy, x, gamma, mean, rstd, dx, add_to_dx, dgamma, dbeta, accumulate);
  Dispatch(op, {&mean, &rstd, &dgamma, &dbeta}, [&]<typename T>() {
    cuda::LayerNormBackward(op.dims[0], op.dims[1], dy.As<const T>(), x.As<const T>(), gamma.As<const T>(),
                            mean.As<const float>(), rstd.As<const float>(), dx.As<T>(), add_to_dx,
                            dgamma.As<float>(), dbeta.As<float>(), accumulate, scratch_, HandleOf(stream));
  });
}

void KernelOps::RmsNormForward(const Tensor& x, const Tensor& gamma, double eps, const Tensor& y,
                               const Tensor& rstd, Stream& stream) {
  const OpDesc op = op_check::RmsNormForward(x, gamma, y, rstd);
  Dispatch(op, {&rstd}, [&]<typename T>() {
    cuda::RmsNormForward(op.dims[0], op.dims[1], x.As<const T>(), gamma.As<const T>(),
                         static_cast<float>(eps), y.As<T>(), rstd.As<float>(), HandleOf(stream));
  });
}

void KernelOps::RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                                const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate,
                                Stream& stream) {
  const OpDesc op = op_check::RmsNormBackward(dy, x, gamma, rstd, dx, add_to_dx, dgamma, accumulate);
  Dispatch(op, {&rstd, &dgamma}, [&]<typename T>() {
    cuda::RmsNormBackward(op.dims[0], op.dims[1], dy.As<const T>(), x.As<const T>(), gamma.As<const T>(),
                          rstd.As<const float>(), dx.As<T>(), add_to_dx, dgamma.As<float>(), accumulate,
                          scratch_, HandleOf(stream));
  });
}

void KernelOps::BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual, Stream& stream) {
  const OpDesc op = op_check::BiasResidual(y, bias, residual);
  Dispatch(op, {}, [&]<typename T>() {
    cuda::BiasResidual(op.dims[0], op.dims[1], y.As<T>(), bias.As<const T>(), residual.As<const T>(),
                       HandleOf(stream));
  });
}

void KernelOps::ResidualAdd(const Tensor& y, const Tensor& residual, Stream& stream) {
  const OpDesc op = op_check::ResidualAdd(y, residual);
  Dispatch(op, {}, [&]<typename T>() {
    BiasAdd(1, y.Elements(), y.As<T>(), residual.As<const T>(), HandleOf(stream));
  });
}

void KernelOps::Scale(const Tensor& x, double factor, const Tensor& y, Stream& stream) {
  const OpDesc op = op_check::Scale(x, factor, y);
  Dispatch(op, {}, [&]<typename T>() {
    cuda::Scale(x.Elements(), x.As<const T>(), static_cast<float>(factor), y.As<T>(), HandleOf(stream));
  });
}

void KernelOps::ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y,
                                  Stream& stream) {
  const OpDesc op = op_check::ActivationForward(activation, x, bias, y);
  Dispatch(op, {}, [&]<typename T>() {
    cuda::ActivationForward(activation, op.dims[0], op.dims[1], x.As<T>(), bias.As<const T>(), y.As<T>(),
                            HandleOf(stream));
  });
}

void KernelOps::ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx,
                                   Stream& stream) {
  const OpDesc op = op_check::ActivationBackward(activation, x, dy, dx);
  Dispatch(op, {}, [&]<typename T>() {
    cuda::ActivationBackward(activation, op.dims[0], op.dims[1], x.As<const T>(), dy.As<const T>(),
                             dx.As<T>(), HandleOf(stream));
  });
}

void KernelOps::HeadNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                                const Tensor& gamma_q, const Tensor& gamma_k, double eps, const Tensor& raw,
                                const Tensor& rstd, Stream& stream) {
  const OpDesc op = op_check::HeadNormForward(qkv, heads, kv_heads, gamma_q, gamma_k, raw, rstd);
  const HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
  Dispatch(op, {&rstd}, [&]<typename T>() {
    cuda::HeadNormForward(shape, qkv.As<T>(), gamma_q.As<const T>(), gamma_k.As<const T>(),
                          static_cast<float>(eps), raw.As<T>(), rstd.As<float>(), HandleOf(stream));
  });
}

void KernelOps::HeadNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads,
                                 const Tensor& raw, const Tensor& gamma_q, const Tensor& gamma_k,
                                 const Tensor& rstd, const Tensor& dgamma_q, const Tensor& dgamma_k,
                                 bool accumulate, Stream& stream) {
  const OpDesc op = op_check::HeadNormBackward(dqkv, heads, kv_heads, raw, gamma_q, gamma_k, rstd, dgamma_q,
                                               dgamma_k, accumulate);
  const HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
  Dispatch(op, {&rstd, &dgamma_q, &dgamma_k}, [&]<typename T>() {
    cuda::HeadNormBackward(shape, dqkv.As<T>(), raw.As<const T>(), gamma_q.As<const T>(),
                           gamma_k.As<const T>(), rstd.As<const float>(), dgamma_q.As<float>(),
                           dgamma_k.As<float>(), accumulate, scratch_, HandleOf(stream));
  });
}

void KernelOps::QkSquares(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& sums,
                          Stream& stream) {
  const OpDesc op = op_check::QkSquares(qkv, heads, kv_heads, sums);
  const HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
  Dispatch(op, {&sums}, [&]<typename T>() {
    cuda::QkSquares(shape, qkv.As<const T>(), sums.As<float>(), HandleOf(stream));
  });
}

void KernelOps::QkNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                              std::int64_t ranks, const Tensor& gamma_q, const Tensor& gamma_k, double eps,
                              const Tensor& raw, const Tensor& rstd, Stream& stream) {
  const OpDesc op = op_check::QkNormForward(qkv, heads, kv_heads, ranks, gamma_q, gamma_k, raw, rstd);
  const HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
  Dispatch(op, {&rstd}, [&]<typename T>() {
    cuda::QkNormForward(shape, ranks, qkv.As<T>(), gamma_q.As<const T>(), gamma_k.As<const T>(),
                        static_cast<float>(eps), raw.As<T>(), rstd.As<float>(), HandleOf(stream));
  });
}

void KernelOps::QkProducts(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                           const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                           const Tensor& products, Stream& stream) {
  const OpDesc op = op_check::QkProducts(dqkv, heads, kv_heads, raw, gamma_q, gamma_k, rstd, products);
  const HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
  Dispatch(op, {&rstd, &products}, [&]<typename T>() {
    cuda::QkProducts(shape, dqkv.As<const T>(), raw.As<const T>(), gamma_q.As<const T>(),
                     gamma_k.As<const T>(), rstd.As<const float>(), products.As<float>(), HandleOf(stream));
  });
}

void KernelOps::QkNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads,
                               std::int64_t ranks, const Tensor& raw, const Tensor& gamma_q,
                               const Tensor& gamma_k, const Tensor& rstd, const Tensor& products,
                               const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate,
                               Stream& stream) {
  const OpDesc op = op_check::QkNormBackward(dqkv, heads, kv_heads, ranks, raw, gamma_q, gamma_k, rstd,
                                             products, dgamma_q, dgamma_k, accumulate);
  const HeadNormShape shape{op.dims[0], heads, kv_heads, op.dims[2]};
  Dispatch(op, {&rstd, &products, &dgamma_q, &dgamma_k}, [&]<typename T>() {
    cuda::QkNormBackward(shape, ranks, dqkv.As<T>(), raw.As<const T>(), gamma_q.As<const T>(),
                         gamma_k.As<const T>(), rstd.As<const float>(), products.As<const float>(),
                         dgamma_q.As<float>(), dgamma_k.As<float>(), accumulate, scratch_, HandleOf(stream));
  });
}

void KernelOps::Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim,
                     std::int64_t rotary_dims, double theta, bool inverse, Stream& stream) {
  const OpDesc op = op_check::Rope(qkv, heads_turned, head_dim, rotary_dims, theta);
  const RopeShape shape{qkv.shape[0], qkv.shape[1], qkv.shape[2], heads_turned, head_dim, rotary_dims};
  Dispatch(op, {}, [&]<typename T>() { cuda::Rope(shape, theta, inverse, qkv.As<T>(), HandleOf(stream)); });
}

void KernelOps::EmbeddingForward(const Tensor& tokens, const Tensor& table, std::int64_t vocab_start,
                                 const Tensor& out, Stream& stream) {
  const OpDesc op = op_check::EmbeddingForward(tokens, table, out);
  Dispatch(op, {}, [&]<typename T>() {
    cuda::EmbeddingForward(op.dims[0], op.dims[1], op.dims[2], vocab_start, tokens.As<const std::int32_t>(),
                           table.As<const T>(), out.As<T>(), HandleOf(stream));
  });
}

void KernelOps::EmbeddingBackward(const Tensor& tokens, const Tensor& dout, std::int64_t vocab_start,
                                  const Tensor& dtable, bool accumulate, Stream& stream) {
  const OpDesc op = op_check::EmbeddingBackward(tokens, dout, dtable, accumulate);
  Dispatch(op, {&dtable}, [&]<typename T>() {
    if (!accumulate) FillZero(dtable.As<float>(), dtable.Elements(), HandleOf(stream));
    cuda::EmbeddingBackward(op.dims[0], op.dims[1], op.dims[2], vocab_start, tokens.As<const std::int32_t>(),
                            dout.As<const T>(), dtable.As<float>(), scratch_, HandleOf(stream));
  });
}

// Treats the positions of a run as one row, added to each sequence of the run.
void KernelOps::PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first,
                                const Tensor& table, Stream& stream) {
  const OpDesc op = op_check::PositionForward(y, seq_len, first, table);
  const std::int64_t width = y.shape[1];
  Dispatch(op, {}, [&]<typename T>() {
    ForEachPositionRun(y.shape[0], first, seq_len, [&](const PositionRun& run) {
      BiasAdd(run.sequences, run.length * width, y.As<T>() + run.row * width,
              table.As<const T>() + run.position * width, HandleOf(stream));
    });
  });
}

void KernelOps::PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate, Stream& stream) {
  const OpDesc op = op_check::PositionBackward(dy, dtable, accumulate);
  Dispatch(op, {&dtable}, [&]<typename T>() {
    const std::int64_t summed = dy.shape[1] * dy.shape[2];  // positions beyond the sequence get no gradient
    if (!accumulate && dtable.Elements() > summed)
      FillZero(dtable.As<float>() + summed, dtable.Elements() - summed, HandleOf(stream));
    ColumnSum(dy.shape[0], summed, dy.As<const T>(), dtable.As<float>(), accumulate, scratch_,
              HandleOf(stream));
  });
}

void KernelOps::CrossEntropy(const Tensor& logits, std::int64_t valid, const Tensor& targets, double scale,
                             const Tensor& loss, Stream& stream) {
  const OpDesc op = op_check::CrossEntropy(logits, valid, targets, loss);
  Dispatch(op, {}, [&]<typename T>() {
    cuda::CrossEntropy(op.dims[0], op.dims[1], valid, logits.As<T>(), targets.As<const std::int32_t>(),
                       static_cast<float>(scale), loss.As<double>(), scratch_, HandleOf(stream));
  });
}

void KernelOps::CrossEntropyForward(const Tensor& logits, std::int64_t valid, const Tensor& targets,
                                    std::int64_t vocab_start, const Tensor& max, const Tensor& sums,
                                    Stream& stream) {
  const OpDesc op = op_check::CrossEntropyForward(logits, valid, targets, max, sums);
  Dispatch(op, {&max, &sums}, [&]<typename T>() {
    cuda::CrossEntropyForward(op.dims[0], op.dims[1], valid, logits.As<const T>(),
                              targets.As<const std::int32_t>(), vocab_start, max.As<float>(),
                              sums.As<float>(), HandleOf(stream));
  });
}

void KernelOps::CrossEntropyRescale(const Tensor& max, const Tensor& sums, Stream& stream) {
  const OpDesc op = op_check::CrossEntropyRescale(max, sums);
  Dispatch(op, {&max, &sums}, [&]<typename T>() {
    cuda::CrossEntropyRescale(op.dims[0], max.As<const float>(), sums.As<float>(), HandleOf(stream));
  });
}

void KernelOps::CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss, Stream& stream) {
  const OpDesc op = op_check::CrossEntropyLoss(max, sums, loss);
  Dispatch(op, {&max, &sums}, [&]<typename T>() {
    cuda::CrossEntropyLoss(op.dims[0], max.As<const float>(), sums.As<float>(), loss.As<double>(), scratch_,
                           HandleOf(stream));
  });
}

void KernelOps::CrossEntropyBackward(const Tensor& logits, std::int64_t valid, const Tensor& sums,
                                     const Tensor& targets, std::int64_t vocab_start, double scale,
                                     Stream& stream) {
  const OpDesc op = op_check::CrossEntropyBackward(logits, valid, sums, targets);
  Dispatch(op, {&sums}, [&]<typename T>() {
    cuda::CrossEntropyBackward(op.dims[0], op.dims[1], valid, logits.As<T>(), sums.As<const float>(),
                               targets.As<const std::int32_t>(), vocab_start, static_cast<float>(scale),
                               HandleOf(stream));
  });
}

void KernelOps::Fill(const Tensor& y, double value, Stream& stream) {
  const OpDesc op = op_check::Fill(y);
  const auto fill = [&]<typename T>(T with) {
    // Negative zero has a set bit, so it is no zero here.
    if (value == 0 && !std::signbit(value)) return FillZero(y.As<T>(), op.dims[0], HandleOf(stream));
    cuda::Fill(op.dims[0], with, y.As<T>(), HandleOf(stream));
  };
  if (op.dtype == DType::kF64) return fill(value);
  Dispatch(op, {}, [&]<typename T>() { fill(static_cast<T>(static_cast<float>(value))); });
}

void KernelOps::SumOfSquares(std::span<const Tensor> tensors, const Tensor& result, Stream& stream) {
  if (tensors.empty()) return;
  const OpDesc op = op_check::SumOfSquares(tensors, result);
  Dispatch(op, {}, [&]<typename T>() {
    std::vector<SquaresItem<T>> items;
    items.reserve(tensors.size());
    for (const Tensor& x : tensors) items.push_back({x.As<const T>(), x.Elements()});
    cuda::SumOfSquares<T>(items, result.As<double>(), scratch_, HandleOf(stream));
  });
}

void KernelOps::AdamW(std::span<const AdamWTensor> tensors, const AdamWParams& params, Stream& stream) {
  if (tensors.empty()) return;
  const OpDesc op = op_check::AdamW(tensors, params);  // requires one type per operand over all tensors
  const AdamWTensor& first = tensors.front();
  Dispatch(op, {&first.grad, &first.m}, [&]<typename T>() {
    std::vector<AdamWItem<T>> items;
    items.reserve(tensors.size());
    for (const AdamWTensor& t : tensors) {
      items.push_back({t.param.As<T>(), t.grad.As<const float>(), t.master.As<float>(), t.m.As<float>(),
                       t.v.As<float>(), t.param.Elements(),
                       static_cast<float>(1 - params.lr * t.weight_decay)});
    }
    cuda::AdamW<T>(items, params, HandleOf(stream));
  });
}

}  // namespace autocfg::cuda
