// The CPU implementation of Ops: runs the loops for the element type of the op.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "kernels/bf16.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/bf16_gradients.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/op_operands.h"

namespace autocfg {
namespace {

template <typename T>
void Clear(const Tensor& gradient) {
  std::fill_n(gradient.As<T>(), gradient.Elements(), T(0));
}

// Sets the gradients of parameters to 0 unless the op adds to them.
template <typename T>
void ClearGradients(const OpCall& call) {
  if (call.desc.accumulate) return;
  std::size_t i = 0;
  for (const Operand& operand : OperandsOf(call.desc)) {
    if (const Tensor& t = call[i++]; operand.kind == OperandKind::kGradient) Clear<T>(t);
  }
}

template <typename T>
void Product(const OpDesc& op, const Tensor& a, const Tensor& b, const Tensor& c) {
  cpu::Gemm(Transpose{op.transpose_a}, Transpose{op.transpose_b}, op.dims[0], op.dims[1], op.dims[2], T(1),
            a.As<T>(), a.shape[1], b.As<T>(), b.shape[1], op.accumulate ? T(1) : T(0), c.As<T>(), c.shape[1]);
}

cpu::AttentionShape AttentionShapeOf(const OpCall& call) {
  const auto [b, s, n, d, g] = call.desc.dims;
  return {b, s, n, d, g, call.args.form};
}

cpu::HeadNormShape HeadNormShapeOf(const OpDesc& op) {
  return {op.dims[0], op.dims[1], op.dims[3], op.dims[2]};
}

template <typename T>
void MatmulBias(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [a, b, bias, c] = call.Operands<4>();
  Product<T>(op, a, b, c);
  cpu::BiasAdd(op.dims[0], op.dims[1], c.As<T>(), bias.As<const T>());
}

template <typename T>
void MatmulResidual(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [a, b, bias, residual, c] = call.Operands<5>();
  Product<T>(op, a, b, c);
  if (op.bias) {
    cpu::BiasResidual(op.dims[0], op.dims[1], c.As<T>(), bias.As<const T>(), residual.As<const T>());
  } else {
    cpu::ResidualAdd(c.Elements(), c.As<T>(), residual.As<const T>());
  }
}

template <typename T>
void MatmulActivation(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [a, b, bias, pre, y] = call.Operands<5>();
  Product<T>(op, a, b, pre);
  cpu::ActivationForward(op.activation, op.dims[0], op.dims[1], pre.As<T>(), bias.As<const T>(), y.As<T>());
}

template <typename T>
void MatmulActivationBackward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [dy, b, pre, dpre] = call.Operands<4>();
  Product<T>(op, dy, b, dpre);
  cpu::ActivationBackward(op.activation, op.dims[0], op.dims[1], pre.As<const T>(), dpre.As<const T>(),
                          dpre.As<T>());
}

template <typename T>
void MatmulBiasGradient(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [x, dy, dw, dbias] = call.Operands<4>();
  Product<T>(op, x, dy, dw);
  if (!op.accumulate) Clear<T>(dbias);
  cpu::BiasGradient(op.dims[2], op.dims[1], dy.As<const T>(), dbias.As<T>());
}

template <typename T>
void Matmul(const OpCall& call) {
  switch (call.desc.epilogue) {
    case Epilogue::kNone: return Product<T>(call.desc, call[0], call[1], call[2]);
    case Epilogue::kBias: return MatmulBias<T>(call);
    case Epilogue::kActivation: return MatmulActivation<T>(call);
    case Epilogue::kActivationGradient: return MatmulActivationBackward<T>(call);
    case Epilogue::kBiasGradient: return MatmulBiasGradient<T>(call);
    case Epilogue::kResidual: return MatmulResidual<T>(call);
  }
}

template <typename T>
void LayerNormForward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [x, gamma, beta, y, mean, rstd] = call.Operands<6>();
  cpu::LayerNormForward(op.dims[0], op.dims[1], x.As<const T>(), gamma.As<const T>(), beta.As<const T>(),
                        static_cast<T>(call.args.eps), y.As<T>(), mean.As<T>(), rstd.As<T>());
}

template <typename T>
void LayerNormBackward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [dy, x, gamma, mean, rstd, dx, dgamma, dbeta] = call.Operands<8>();
  ClearGradients<T>(call);
  cpu::LayerNormBackward(op.dims[0], op.dims[1], dy.As<const T>(), x.As<const T>(), gamma.As<const T>(),
                         mean.As<const T>(), rstd.As<const T>(), dx.As<T>(), call.args.add_to_dx,
                         dgamma.As<T>(), dbeta.As<T>());
}

template <typename T>
void RmsNormForward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [x, gamma, y, rstd] = call.Operands<4>();
  cpu::RmsNormForward(op.dims[0], op.dims[1], x.As<const T>(), gamma.As<const T>(),
                      static_cast<T>(call.args.eps), y.As<T>(), rstd.As<T>());
}

template <typename T>
void RmsNormBackward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [dy, x, gamma, rstd, dx, dgamma] = call.Operands<6>();
  ClearGradients<T>(call);
  cpu::RmsNormBackward(op.dims[0], op.dims[1], dy.As<const T>(), x.As<const T>(), gamma.As<const T>(),
                       rstd.As<const T>(), dx.As<T>(), call.args.add_to_dx, dgamma.As<T>());
}

template <typename T>
void BiasResidual(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [y, bias, residual] = call.Operands<3>();
  cpu::BiasResidual(op.dims[0], op.dims[1], y.As<T>(), bias.As<const T>(), residual.As<const T>());
}

template <typename T>
void ResidualAdd(const OpCall& call) {
  const auto [y, residual] = call.Operands<2>();
  cpu::ResidualAdd(y.Elements(), y.As<T>(), residual.As<const T>());
}

template <typename T>
void Scale(const OpCall& call) {
  const auto [x, y] = call.Operands<2>();
  cpu::Scale(x.Elements(), x.As<const T>(), static_cast<T>(call.args.factor), y.As<T>());
}

template <typename T>
void CopyColumns(const OpCall& call) {
  const auto [columns, rows] = call.Operands<2>();
  const std::int64_t width = call.desc.dims[1], stride = rows.shape[1];
  T *narrow = columns.As<T>(), *wide = rows.As<T>() + call.args.first;
  if (call.args.inverse) {
    cpu::CopyColumns<T>(call.desc.dims[0], width, narrow, width, wide, stride);
  } else {
    cpu::CopyColumns<T>(call.desc.dims[0], width, wide, stride, narrow, width);
  }
}

template <typename T>
void ActivationForward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [x, bias, y] = call.Operands<3>();
  cpu::ActivationForward(op.activation, op.dims[0], op.dims[1], x.As<T>(), bias.As<const T>(), y.As<T>());
}

template <typename T>
void ActivationBackward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [x, dy, dx] = call.Operands<3>();
  cpu::ActivationBackward(op.activation, op.dims[0], op.dims[1], x.As<const T>(), dy.As<const T>(),
                          dx.As<T>());
}

template <typename T>
void HeadNormForward(const OpCall& call) {
  const auto [qkv, gamma_q, gamma_k, raw, rstd] = call.Operands<5>();
  cpu::HeadNormForward(HeadNormShapeOf(call.desc), qkv.As<T>(), gamma_q.As<const T>(), gamma_k.As<const T>(),
                       static_cast<T>(call.args.eps), raw.As<T>(), rstd.As<T>());
}

template <typename T>
void HeadNormBackward(const OpCall& call) {
  const auto [dqkv, raw, gamma_q, gamma_k, rstd, dgamma_q, dgamma_k] = call.Operands<7>();
  ClearGradients<T>(call);
  cpu::HeadNormBackward(HeadNormShapeOf(call.desc), dqkv.As<T>(), raw.As<const T>(), gamma_q.As<const T>(),
                        gamma_k.As<const T>(), rstd.As<const T>(), dgamma_q.As<T>(), dgamma_k.As<T>());
}

template <typename T>
void QkSquares(const OpCall& call) {
  const auto [qkv, sums] = call.Operands<2>();
  cpu::QkSquares(HeadNormShapeOf(call.desc), qkv.As<const T>(), sums.As<T>());
}

template <typename T>
void QkNormForward(const OpCall& call) {
  const auto [qkv, gamma_q, gamma_k, raw, rstd] = call.Operands<5>();
  cpu::QkNormForward(HeadNormShapeOf(call.desc), call.args.ranks, qkv.As<T>(), gamma_q.As<const T>(),
                     gamma_k.As<const T>(), static_cast<T>(call.args.eps), raw.As<T>(), rstd.As<T>());
}

template <typename T>
void QkProducts(const OpCall& call) {
  const auto [dqkv, raw, gamma_q, gamma_k, rstd, products] = call.Operands<6>();
  cpu::QkProducts(HeadNormShapeOf(call.desc), dqkv.As<const T>(), raw.As<const T>(), gamma_q.As<const T>(),
                  gamma_k.As<const T>(), rstd.As<const T>(), products.As<T>());
}

template <typename T>
void QkNormBackward(const OpCall& call) {
  const auto [dqkv, raw, gamma_q, gamma_k, rstd, products, dgamma_q, dgamma_k] = call.Operands<8>();
  ClearGradients<T>(call);
  cpu::QkNormBackward(HeadNormShapeOf(call.desc), call.args.ranks, dqkv.As<T>(), raw.As<const T>(),
                      gamma_q.As<const T>(), gamma_k.As<const T>(), rstd.As<const T>(),
                      products.As<const T>(), dgamma_q.As<T>(), dgamma_k.As<T>());
}

template <typename T>
void Rope(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [qkv] = call.Operands<1>();
  const cpu::RopeShape shape{qkv.shape[0], qkv.shape[1], qkv.shape[2], op.dims[1], op.dims[2], op.dims[3]};
  cpu::Rope(shape, *call.args.frequencies, call.args.inverse, qkv.As<T>());
}

template <typename T>
void AttentionForward(const OpCall& call) {
  const auto [qkv, out, lse, workspace] = call.Operands<4>();
  cpu::AttentionForward(AttentionShapeOf(call), qkv.As<const T>(), out.As<T>(), lse.As<T>(),
                        workspace.As<T>());
}

template <typename T>
void AttentionBackward(const OpCall& call) {
  const auto [qkv, out, lse, dout, dqkv, workspace] = call.Operands<6>();
  cpu::AttentionBackward(AttentionShapeOf(call), qkv.As<const T>(), out.As<const T>(), lse.As<const T>(),
                         dout.As<const T>(), dqkv.As<T>(), workspace.As<T>());
}

template <typename T>
void UnfusedAttentionForward(const OpCall& call) {
  const auto [qkv, probabilities, out] = call.Operands<3>();
  cpu::UnfusedAttentionForward(AttentionShapeOf(call), qkv.As<const T>(), probabilities.As<T>(), out.As<T>());
}

template <typename T>
void UnfusedAttentionBackward(const OpCall& call) {
  const auto [qkv, probabilities, out, dout, dqkv, dscores] = call.Operands<6>();
  cpu::UnfusedAttentionBackward(AttentionShapeOf(call), qkv.As<const T>(), probabilities.As<const T>(),
                                out.As<const T>(), dout.As<const T>(), dqkv.As<T>(), dscores.As<T>());
}

template <typename T>
void EmbeddingForward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [tokens, table, out] = call.Operands<3>();
  cpu::EmbeddingForward(op.dims[0], op.dims[1], op.dims[2], call.args.vocab_start,
                        tokens.As<const std::int32_t>(), table.As<const T>(), out.As<T>());
}

template <typename T>
void EmbeddingBackward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [tokens, dout, dtable] = call.Operands<3>();
  ClearGradients<T>(call);
  cpu::EmbeddingBackward(op.dims[0], op.dims[1], op.dims[2], call.args.vocab_start,
                         tokens.As<const std::int32_t>(), dout.As<const T>(), dtable.As<T>());
}

template <typename T>
void PositionForward(const OpCall& call) {
  const auto [y, table] = call.Operands<2>();
  cpu::PositionForward({y.shape[0], y.shape[1]}, call.args.seq_len, call.args.first, y.As<T>(),
                       table.As<const T>());
}

template <typename T>
void PositionBackward(const OpCall& call) {
  const auto [dy, dtable] = call.Operands<2>();
  ClearGradients<T>(call);
  cpu::PositionBackward(dy.shape[0], dy.shape[1], dy.shape[2], dy.As<const T>(), dtable.As<T>());
}

template <typename T>
void CrossEntropy(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [logits, targets, loss] = call.Operands<3>();
  *loss.As<double>() += cpu::CrossEntropy(op.dims[0], op.dims[1], call.args.valid, logits.As<T>(),
                                          targets.As<const std::int32_t>(), static_cast<T>(call.args.scale),
                                          static_cast<T>(call.args.softcap));
}

template <typename T>
void CrossEntropyForward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [logits, targets, max, sums] = call.Operands<4>();
  cpu::CrossEntropyForward(op.dims[0], op.dims[1], call.args.valid, logits.As<const T>(),
                           targets.As<const std::int32_t>(), call.args.vocab_start,
                           static_cast<T>(call.args.softcap), max.As<T>(), sums.As<T>());
}

template <typename T>
void CrossEntropyRescale(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [max, sums] = call.Operands<2>();
  cpu::CrossEntropyRescale(op.dims[0], max.As<const T>(), sums.As<T>());
}

template <typename T>
void CrossEntropyLoss(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [max, sums, loss] = call.Operands<3>();
  *loss.As<double>() += cpu::CrossEntropyLoss(op.dims[0], max.As<const T>(), sums.As<T>());
}

template <typename T>
void CrossEntropyBackward(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [logits, sums, targets] = call.Operands<3>();
  cpu::CrossEntropyBackward(op.dims[0], op.dims[1], call.args.valid, logits.As<T>(), sums.As<const T>(),
                            targets.As<const std::int32_t>(), call.args.vocab_start,
                            static_cast<T>(call.args.scale), static_cast<T>(call.args.softcap));
}

template <typename T>
void Fill(const OpCall& call) {
  const OpDesc& op = call.desc;
  const auto [y] = call.Operands<1>();
  std::fill_n(y.As<T>(), op.dims[0], static_cast<T>(call.args.value));
}

template <typename T>
void SumOfSquares(const OpCall& call) {
  for (const Tensor& x : call.summed)
    *call[1].As<double>() += cpu::SumOfSquares(x.Elements(), x.As<const T>());
}

// Calls `run` with a value of each type of states: of gradients, then of moments.
template <typename T, typename F>
void WithStateTypes(const OpCall& call, const F& run) {
  if constexpr (std::is_same_v<T, float>) {
    const bool narrow_moments = call.desc.moments == DType::kBF16;
    if (call.desc.gradients == DType::kBF16)
      return narrow_moments ? run(Bf16Bits(), Bf16Bits()) : run(Bf16Bits(), T());
    if (narrow_moments) return run(T(), Bf16Bits());
  }
  run(T(), T());
}

double GradScale(const UpdateParams& params) {
  return params.clip_norm == 0 ? 1.0
                               : ClipFactor(params.clip_norm, std::sqrt(*params.squared_norm.As<double>()));
}

template <typename T>
void AdamW(const OpCall& call) {
  const double grad_scale = GradScale(*call.params);
  WithStateTypes<T>(call, [&]<typename Gradient, typename Moment>(Gradient, Moment) {
    for (const UpdatedTensor& t : call.updated) {
      cpu::AdamW(t.param.Elements(), t.param.As<T>(), t.grad.As<const Gradient>(), t.m.As<Moment>(),
                 t.v.As<Moment>(), t.weight_decay, grad_scale, *call.params);
    }
  });
}

template <typename T>
void Sgd(const OpCall& call) {
  const double grad_scale = GradScale(*call.params);
  WithStateTypes<T>(call, [&]<typename Gradient, typename Moment>(Gradient, Moment) {
    for (const UpdatedTensor& t : call.updated) {
      cpu::Sgd(t.param.Elements(), t.param.As<T>(), t.grad.As<const Gradient>(), t.m.As<Moment>(),
               t.weight_decay, grad_scale, *call.params);
    }
  });
}

template <typename T>
void RunOp(const OpCall& call) {
  switch (call.desc.kind) {
    case OpKind::kMatmul: return Matmul<T>(call);
    case OpKind::kLayerNormForward: return LayerNormForward<T>(call);
    case OpKind::kLayerNormBackward: return LayerNormBackward<T>(call);
    case OpKind::kRmsNormForward: return RmsNormForward<T>(call);
    case OpKind::kRmsNormBackward: return RmsNormBackward<T>(call);
    case OpKind::kBiasResidual: return BiasResidual<T>(call);
    case OpKind::kResidualAdd: return ResidualAdd<T>(call);
    case OpKind::kScale: return Scale<T>(call);
    case OpKind::kCopyColumns: return CopyColumns<T>(call);
    case OpKind::kActivationForward: return ActivationForward<T>(call);
    case OpKind::kActivationBackward: return ActivationBackward<T>(call);
    case OpKind::kHeadNormForward: return HeadNormForward<T>(call);
    case OpKind::kHeadNormBackward: return HeadNormBackward<T>(call);
    case OpKind::kQkSquares: return QkSquares<T>(call);
    case OpKind::kQkNormForward: return QkNormForward<T>(call);
    case OpKind::kQkProducts: return QkProducts<T>(call);
    case OpKind::kQkNormBackward: return QkNormBackward<T>(call);
    case OpKind::kRope: return Rope<T>(call);
    case OpKind::kAttentionForward: return AttentionForward<T>(call);
    case OpKind::kAttentionBackward: return AttentionBackward<T>(call);
    case OpKind::kUnfusedAttentionForward: return UnfusedAttentionForward<T>(call);
    case OpKind::kUnfusedAttentionBackward: return UnfusedAttentionBackward<T>(call);
    case OpKind::kEmbeddingForward: return EmbeddingForward<T>(call);
    case OpKind::kEmbeddingBackward: return EmbeddingBackward<T>(call);
    case OpKind::kPositionForward: return PositionForward<T>(call);
    case OpKind::kPositionBackward: return PositionBackward<T>(call);
    case OpKind::kCrossEntropy: return CrossEntropy<T>(call);
    case OpKind::kCrossEntropyForward: return CrossEntropyForward<T>(call);
    case OpKind::kCrossEntropyRescale: return CrossEntropyRescale<T>(call);
    case OpKind::kCrossEntropyLoss: return CrossEntropyLoss<T>(call);
    case OpKind::kCrossEntropyBackward: return CrossEntropyBackward<T>(call);
    case OpKind::kFill: return Fill<T>(call);
    case OpKind::kSumOfSquares: return SumOfSquares<T>(call);
    case OpKind::kAdamW: return AdamW<T>(call);
    case OpKind::kSgd: return Sgd<T>(call);
    case kFirstCommunication ... kLastCommunication: break;
  }
  throw std::logic_error(fmt::format("{} is not an op of a device", Name(call.desc.kind)));
}

class CpuOps final : public Ops {
 public:
  void Run(const OpCall& call, Stream&) override {
    const OpDesc& op = call.desc;
    if (op.master) {
      throw std::invalid_argument(fmt::format(
          "{}: the cpu device keeps no master copy of the weights; fp32 and fp64 need none", Name(op.kind)));
    }
    std::size_t i = 0;
    for (const Operand& operand : OperandsOf(op)) RequireType(op, operand, call[i++]);
    switch (op.dtype) {
      case DType::kF32:
        if (op.gradients && !UpdatesParameters(op.kind)) return gradients_.RunWide(call, RunOp<float>);
        return RunOp<float>(call);
      case DType::kF64: return RunOp<double>(call);
      case DType::kBF16: return cpu::Bf16Gradients::Run(call);
      default:
        throw std::invalid_argument(fmt::format("{}: {} is not supported on the cpu device; use fp32 or fp64",
                                                Name(op.kind), Name(op.dtype)));
    }
  }

 private:
  static void RequireType(const OpDesc& op, const Operand& operand, const Tensor& t) {
    if (operand.kind == OperandKind::kTokenIds || operand.kind == OperandKind::kScalar) return;
    if (!operand.IsIn(op) || t.dtype == op.dtype) return;
    const bool state = operand.kind == OperandKind::kGradient || operand.kind == OperandKind::kMoment;
    if (state && op.dtype == DType::kF32 && t.dtype == DType::kBF16) return;
    throw std::invalid_argument(fmt::format("{}: {} is {}; the cpu device needs {}{}", Name(op.kind),
                                            operand.name, Name(t.dtype), Name(op.dtype),
                                            state && op.dtype == DType::kF32 ? " or bf16" : ""));
  }

  cpu::Bf16Gradients gradients_;
};

}  // namespace

std::unique_ptr<Ops> CreateCpuOps() {
  cpu::UseOneBlasThread();
  return std::make_unique<CpuOps>();
}

}  // namespace autocfg
