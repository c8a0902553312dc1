#include "kernels/cuda/ops/kernel_ops.h"

#include <cmath>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "kernels/cuda/device/cuda_error.h"
#include "kernels/cuda/kernels/cross_entropy.h"
#include "kernels/cuda/kernels/elementwise.h"
#include "kernels/cuda/kernels/embedding.h"
#include "kernels/cuda/kernels/head_norm.h"
#include "kernels/cuda/kernels/norm.h"
#include "kernels/cuda/kernels/optimizer.h"
#include "kernels/cuda/kernels/sum.h"
#include "kernels/position_runs.h"

namespace autocfg::cuda {
namespace {

// By the driver's memset.
template <typename T>
void FillZero(T* to, std::int64_t count, cudaStream_t stream) {
  Check(cudaMemsetAsync(to, 0, static_cast<std::size_t>(count) * sizeof(T), stream), "filling with zeros");
}

// Where the kernels of an op run.
struct On {
  Scratch& scratch;
  cudaStream_t stream;
};

// Calls run.operator()<S>() with the type of the op's gradients of parameters: float, or also that of the op.
template <typename T, typename Run>
void WithGradients(const OpCall& call, const Run& run) {
  if (!call.desc.gradients) return run.template operator()<float>();
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if (call.desc.gradients == DType::kBF16) return run.template operator()<T>();
  }
  throw std::invalid_argument(
      fmt::format("{}: the cuda device keeps no gradients in {} where it computes in {}",
                  Name(call.desc.kind), Name(*call.desc.gradients), Name(call.desc.dtype)));
}

HeadNormShape HeadNormShapeOf(const OpDesc& op) { return {op.dims[0], op.dims[1], op.dims[3], op.dims[2]}; }

template <typename T>
void LayerNormForward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [x, gamma, beta, y, mean, rstd] = call.Operands<6>();
  cuda::LayerNormForward(op.dims[0], op.dims[1], x.As<const T>(), gamma.As<const T>(), beta.As<const T>(),
                         static_cast<float>(call.args.eps), y.As<T>(), mean.As<float>(), rstd.As<float>(),
                         on.stream);
}

template <typename T, typename S>
void LayerNormBackward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [dy, x, gamma, mean, rstd, dx, dgamma, dbeta] = call.Operands<8>();
  cuda::LayerNormBackward(op.dims[0], op.dims[1], dy.As<const T>(), x.As<const T>(), gamma.As<const T>(),
                          mean.As<const float>(), rstd.As<const float>(), dx.As<T>(), call.args.add_to_dx,
                          dgamma.As<S>(), dbeta.As<S>(), op.accumulate, on.scratch, on.stream);
}

template <typename T>
void RmsNormForward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [x, gamma, y, rstd] = call.Operands<4>();
  cuda::RmsNormForward(op.dims[0], op.dims[1], x.As<const T>(), gamma.As<const T>(),
                       static_cast<float>(call.args.eps), y.As<T>(), rstd.As<float>(), on.stream);
}

template <typename T, typename S>
void RmsNormBackward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [dy, x, gamma, rstd, dx, dgamma] = call.Operands<6>();
  cuda::RmsNormBackward(op.dims[0], op.dims[1], dy.As<const T>(), x.As<const T>(), gamma.As<const T>(),
                        rstd.As<const float>(), dx.As<T>(), call.args.add_to_dx, dgamma.As<S>(),
                        op.accumulate, on.scratch, on.stream);
}

template <typename T>
void BiasResidual(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [y, bias, residual] = call.Operands<3>();
  cuda::BiasResidual(op.dims[0], op.dims[1], y.As<T>(), bias.As<const T>(), residual.As<const T>(),
                     on.stream);
}

template <typename T>
void ResidualAdd(const OpCall& call, const On& on) {
  const auto [y, residual] = call.Operands<2>();
  BiasAdd(1, y.Elements(), y.As<T>(), residual.As<const T>(), on.stream);
}

template <typename T>
void Scale(const OpCall& call, const On& on) {
  const auto [x, y] = call.Operands<2>();
  cuda::Scale(x.Elements(), x.As<const T>(), static_cast<float>(call.args.factor), y.As<T>(), on.stream);
}

template <typename T>
void CopyColumns(const OpCall& call, const On& on) {
  const auto [columns, rows] = call.Operands<2>();
  const std::int64_t width = call.desc.dims[1], stride = rows.shape[1];
  T *narrow = columns.As<T>(), *wide = rows.As<T>() + call.args.first;
  if (call.args.inverse) {
    cuda::CopyColumns<T>(call.desc.dims[0], width, narrow, width, wide, stride, on.stream);
  } else {
    cuda::CopyColumns<T>(call.desc.dims[0], width, wide, stride, narrow, width, on.stream);
  }
}

template <typename T>
void ActivationForward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [x, bias, y] = call.Operands<3>();
  cuda::ActivationForward(op.activation, op.dims[0], op.dims[1], x.As<T>(), bias.As<const T>(), y.As<T>(),
                          on.stream);
}

template <typename T>
void ActivationBackward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [x, dy, dx] = call.Operands<3>();
  cuda::ActivationBackward(op.activation, op.dims[0], op.dims[1], x.As<const T>(), dy.As<const T>(),
                           dx.As<T>(), on.stream);
}

template <typename T>
void HeadNormForward(const OpCall& call, const On& on) {
  const auto [qkv, gamma_q, gamma_k, raw, rstd] = call.Operands<5>();
  cuda::HeadNormForward(HeadNormShapeOf(call.desc), qkv.As<T>(), gamma_q.As<const T>(), gamma_k.As<const T>(),
                        static_cast<float>(call.args.eps), raw.As<T>(), rstd.As<float>(), on.stream);
}

template <typename T, typename S>
void HeadNormBackward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [dqkv, raw, gamma_q, gamma_k, rstd, dgamma_q, dgamma_k] = call.Operands<7>();
  cuda::HeadNormBackward(HeadNormShapeOf(call.desc), dqkv.As<T>(), raw.As<const T>(), gamma_q.As<const T>(),
                         gamma_k.As<const T>(), rstd.As<const float>(), dgamma_q.As<S>(), dgamma_k.As<S>(),
                         op.accumulate, on.scratch, on.stream);
}

template <typename T>
void QkSquares(const OpCall& call, const On& on) {
  const auto [qkv, sums] = call.Operands<2>();
  cuda::QkSquares(HeadNormShapeOf(call.desc), qkv.As<const T>(), sums.As<float>(), on.stream);
}

template <typename T>
void QkNormForward(const OpCall& call, const On& on) {
  const auto [qkv, gamma_q, gamma_k, raw, rstd] = call.Operands<5>();
  cuda::QkNormForward(HeadNormShapeOf(call.desc), call.args.ranks, qkv.As<T>(), gamma_q.As<const T>(),
                      gamma_k.As<const T>(), static_cast<float>(call.args.eps), raw.As<T>(), rstd.As<float>(),
                      on.stream);
}

template <typename T>
void QkProducts(const OpCall& call, const On& on) {
  const auto [dqkv, raw, gamma_q, gamma_k, rstd, products] = call.Operands<6>();
  cuda::QkProducts(HeadNormShapeOf(call.desc), dqkv.As<const T>(), raw.As<const T>(), gamma_q.As<const T>(),
                   gamma_k.As<const T>(), rstd.As<const float>(), products.As<float>(), on.stream);
}

template <typename T, typename S>
void QkNormBackward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [dqkv, raw, gamma_q, gamma_k, rstd, products, dgamma_q, dgamma_k] = call.Operands<8>();
  cuda::QkNormBackward(HeadNormShapeOf(call.desc), call.args.ranks, dqkv.As<T>(), raw.As<const T>(),
                       gamma_q.As<const T>(), gamma_k.As<const T>(), rstd.As<const float>(),
                       products.As<const float>(), dgamma_q.As<S>(), dgamma_k.As<S>(), op.accumulate,
                       on.scratch, on.stream);
}

template <typename T>
void Rope(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [qkv] = call.Operands<1>();
  const RopeShape shape{qkv.shape[0], qkv.shape[1], qkv.shape[2], op.dims[1], op.dims[2], op.dims[3]};
  if (!call.args.frequencies->IsPlain() && shape.rotary_dims / 2 > kMostRopeScales) {
    throw std::invalid_argument(
        fmt::format("rope: a GPU rotates at most {} dims of a head by scaled "
                    "frequencies; there are {}",
                    2 * kMostRopeScales, shape.rotary_dims));
  }
  cuda::Rope(shape, *call.args.frequencies, call.args.inverse, qkv.As<T>(), on.stream);
}

template <typename T>
void EmbeddingForward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [tokens, table, out] = call.Operands<3>();
  cuda::EmbeddingForward(op.dims[0], op.dims[1], op.dims[2], call.args.vocab_start,
                         tokens.As<const std::int32_t>(), table.As<const T>(), out.As<T>(), on.stream);
}

template <typename T, typename S>
void EmbeddingBackward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [tokens, dout, dtable] = call.Operands<3>();
  if (!op.accumulate) FillZero(dtable.As<S>(), dtable.Elements(), on.stream);
  cuda::EmbeddingBackward(op.dims[0], op.dims[1], op.dims[2], call.args.vocab_start,
                          tokens.As<const std::int32_t>(), dout.As<const T>(), dtable.As<S>(), on.scratch,
                          on.stream);
}

// Treats the positions of a run as one row, added to each sequence of the run.
template <typename T>
void PositionForward(const OpCall& call, const On& on) {
  const Tensor &y = call[0], &table = call[1];
  const std::int64_t width = y.shape[1];
  ForEachPositionRun(y.shape[0], call.args.first, call.args.seq_len, [&](const PositionRun& run) {
    BiasAdd(run.sequences, run.length * width, y.As<T>() + run.row * width,
            table.As<const T>() + run.position * width, on.stream);
  });
}

template <typename T, typename S>
void PositionBackward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [dy, dtable] = call.Operands<2>();
  const std::int64_t summed = dy.shape[1] * dy.shape[2];  // positions beyond the sequence get no gradient
  if (!op.accumulate && dtable.Elements() > summed)
    FillZero(dtable.As<S>() + summed, dtable.Elements() - summed, on.stream);
  ColumnSum(dy.shape[0], summed, dy.As<const T>(), dtable.As<S>(), op.accumulate, on.scratch, on.stream);
}

template <typename T>
void CrossEntropy(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [logits, targets, loss] = call.Operands<3>();
  cuda::CrossEntropy(op.dims[0], op.dims[1], call.args.valid, logits.As<T>(),
                     targets.As<const std::int32_t>(), static_cast<float>(call.args.scale),
                     static_cast<float>(call.args.softcap), loss.As<double>(), on.scratch, on.stream);
}

template <typename T>
void CrossEntropyForward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [logits, targets, max, sums] = call.Operands<4>();
  cuda::CrossEntropyForward(op.dims[0], op.dims[1], call.args.valid, logits.As<const T>(),
                            targets.As<const std::int32_t>(), call.args.vocab_start,
                            static_cast<float>(call.args.softcap), max.As<float>(), sums.As<float>(),
                            on.stream);
}

template <typename T>
void CrossEntropyRescale(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [max, sums] = call.Operands<2>();
  cuda::CrossEntropyRescale(op.dims[0], max.As<const float>(), sums.As<float>(), on.stream);
}

template <typename T>
void CrossEntropyLoss(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [max, sums, loss] = call.Operands<3>();
  cuda::CrossEntropyLoss(op.dims[0], max.As<const float>(), sums.As<float>(), loss.As<double>(), on.scratch,
                         on.stream);
}

template <typename T>
void CrossEntropyBackward(const OpCall& call, const On& on) {
  const OpDesc& op = call.desc;
  const auto [logits, sums, targets] = call.Operands<3>();
  cuda::CrossEntropyBackward(op.dims[0], op.dims[1], call.args.valid, logits.As<T>(), sums.As<const float>(),
                             targets.As<const std::int32_t>(), call.args.vocab_start,
                             static_cast<float>(call.args.scale), static_cast<float>(call.args.softcap),
                             on.stream);
}

template <typename T>
void Fill(const OpCall& call, const On& on) {
  const Tensor& y = call[0];
  const double value = call.args.value;
  // Negative zero has a set bit, which memset would not write.
  if (value == 0 && !std::signbit(value)) return FillZero(y.As<T>(), call.desc.dims[0], on.stream);
  if constexpr (std::is_same_v<T, double>) {
    cuda::Fill(call.desc.dims[0], value, y.As<T>(), on.stream);
  } else {
    cuda::Fill(call.desc.dims[0], static_cast<T>(static_cast<float>(value)), y.As<T>(), on.stream);
  }
}

template <typename T>
void SumOfSquares(const OpCall& call, const On& on) {
  std::vector<SquaresItem<T>> items;
  items.reserve(call.summed.size());
  for (const Tensor& x : call.summed) items.push_back({x.As<const T>(), x.Elements()});
  cuda::SumOfSquares<T>(items, call[1].As<double>(), on.scratch, on.stream);
}

// AdamW or Sgd.
void Update(const OpCall& call, const On& on) {
  const bool adamw = call.desc.kind == OpKind::kAdamW;
  std::vector<UpdateItem> items;
  items.reserve(call.updated.size());
  for (const UpdatedTensor& t : call.updated) {
    items.push_back({t.param.data, t.grad.data, t.master.data, t.m.data, t.v.data, t.param.Elements(),
                     static_cast<float>(adamw ? 1 - call.params->lr * t.weight_decay : t.weight_decay)});
  }
  for (const Operand& operand : OperandsOf(call.desc)) {
    if (!operand.IsIn(call.desc) || operand.kind == OperandKind::kCompute) continue;
    const DType type = TypeInStep(operand.kind, call.desc);
    const bool narrow = operand.kind == OperandKind::kMoment || call.desc.dtype == DType::kBF16;
    if (type == DType::kF32 || (type == DType::kBF16 && narrow)) continue;
    throw std::invalid_argument(fmt::format("{}: the cuda device keeps no {} in {} of parameters in {}",
                                            Name(call.desc.kind), operand.name, Name(type),
                                            Name(call.desc.dtype)));
  }
  const UpdateTypes types{.param = call.desc.dtype,
                          .gradient = call.desc.gradients.value_or(DType::kF32),
                          .moment = call.desc.moments.value_or(DType::kF32),
                          .master = call.desc.master.value_or(DType::kF32)};
  (adamw ? cuda::AdamW : cuda::Sgd)(items, types, *call.params, on.stream);
}

template <typename T>
void RunOp(const OpCall& call, const On& on) {
  switch (call.desc.kind) {
    case OpKind::kLayerNormForward: return LayerNormForward<T>(call, on);
    case OpKind::kLayerNormBackward:
      return WithGradients<T>(call, [&]<typename S>() { LayerNormBackward<T, S>(call, on); });
    case OpKind::kRmsNormForward: return RmsNormForward<T>(call, on);
    case OpKind::kRmsNormBackward:
      return WithGradients<T>(call, [&]<typename S>() { RmsNormBackward<T, S>(call, on); });
    case OpKind::kBiasResidual: return BiasResidual<T>(call, on);
    case OpKind::kResidualAdd: return ResidualAdd<T>(call, on);
    case OpKind::kScale: return Scale<T>(call, on);
    case OpKind::kCopyColumns: return CopyColumns<T>(call, on);
    case OpKind::kActivationForward: return ActivationForward<T>(call, on);
    case OpKind::kActivationBackward: return ActivationBackward<T>(call, on);
    case OpKind::kHeadNormForward: return HeadNormForward<T>(call, on);
    case OpKind::kHeadNormBackward:
      return WithGradients<T>(call, [&]<typename S>() { HeadNormBackward<T, S>(call, on); });
    case OpKind::kQkSquares: return QkSquares<T>(call, on);
    case OpKind::kQkNormForward: return QkNormForward<T>(call, on);
    case OpKind::kQkProducts: return QkProducts<T>(call, on);
    case OpKind::kQkNormBackward:
      return WithGradients<T>(call, [&]<typename S>() { QkNormBackward<T, S>(call, on); });
    case OpKind::kRope: return Rope<T>(call, on);
    case OpKind::kEmbeddingForward: return EmbeddingForward<T>(call, on);
    case OpKind::kEmbeddingBackward:
      return WithGradients<T>(call, [&]<typename S>() { EmbeddingBackward<T, S>(call, on); });
    case OpKind::kPositionForward: return PositionForward<T>(call, on);
    case OpKind::kPositionBackward:
      return WithGradients<T>(call, [&]<typename S>() { PositionBackward<T, S>(call, on); });
    case OpKind::kCrossEntropy: return CrossEntropy<T>(call, on);
    case OpKind::kCrossEntropyForward: return CrossEntropyForward<T>(call, on);
    case OpKind::kCrossEntropyRescale: return CrossEntropyRescale<T>(call, on);
    case OpKind::kCrossEntropyLoss: return CrossEntropyLoss<T>(call, on);
    case OpKind::kCrossEntropyBackward: return CrossEntropyBackward<T>(call, on);
    case OpKind::kFill: return Fill<T>(call, on);
    case OpKind::kSumOfSquares: return SumOfSquares<T>(call, on);
    case OpKind::kAdamW:
    case OpKind::kSgd: return Update(call, on);
    case OpKind::kMatmul:
    case OpKind::kAttentionForward:
    case OpKind::kAttentionBackward:
    case OpKind::kUnfusedAttentionForward:
    case OpKind::kUnfusedAttentionBackward:
    case kFirstCommunication ... kLastCommunication: break;
  }
  throw std::logic_error(fmt::format("{} is not an op of our own kernels", Name(call.desc.kind)));
}

}  // namespace

void RunKernelOp(const OpCall& call, Scratch& scratch, cudaStream_t stream) {
  const On on{scratch, stream};
  if (call.desc.kind == OpKind::kFill && call.desc.dtype == DType::kF64) return Fill<double>(call, on);
  Dispatch(call, [&]<typename T>() { RunOp<T>(call, on); });
}

}  // namespace autocfg::cuda
