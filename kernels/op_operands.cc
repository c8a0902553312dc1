#include "kernels/op_operands.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "search/ops/memory_sizes.h"

namespace autocfg {
namespace {

using enum OperandKind;

// c = op(a) op(b), and what the epilogue adds.
Operands OfMatmul(const OpDesc& op) {
  const std::int64_t m = op.dims[0], n = op.dims[1], k = op.dims[2];
  Operands found;
  const auto add_bias = [&] {
    if (op.epilogue == Epilogue::kBias || op.bias) {
      found.Add("bias", kCompute, {n});
    } else {
      found.AddAbsent("bias");
    }
  };
  switch (op.epilogue) {
    case Epilogue::kNone:
      found.Add(op.transpose_a ? "a (transposed)" : "a", kCompute,
                {op.transpose_a ? k : m, op.transpose_a ? m : k});
      found.Add(op.transpose_b ? "b (transposed)" : "b", kCompute,
                {op.transpose_b ? n : k, op.transpose_b ? k : n});
      found.Add("c", op.transpose_a ? kGradient : kResult, {m, n});
      return found;
    case Epilogue::kBias:
      found.Add("a", kCompute, {m, k});
      found.Add("b", kCompute, {k, n});
      add_bias();
      found.Add("c", kCompute, {m, n});
      return found;
    case Epilogue::kActivation:
      found.Add("a", kCompute, {m, k});
      found.Add("b", kCompute, {k, n});
      add_bias();
      found.Add("pre", kCompute, {m, n});
      found.Add("y", kCompute, {m, n});
      return found;
    case Epilogue::kActivationGradient:
      found.Add("dy", kCompute, {m, k});
      found.Add("b (transposed)", kCompute, {n, k});
      found.Add("pre", kCompute, {m, n});
      found.Add("dpre", kCompute, {m, n});
      return found;
    case Epilogue::kBiasGradient:
      found.Add("x (transposed)", kCompute, {k, m});
      found.Add("dy", kCompute, {k, n});
      found.Add("dw", kGradient, {m, n});
      found.Add("dbias", kGradient, {n});
      return found;
    case Epilogue::kResidual:
      found.Add("a", kCompute, {m, k});
      found.Add("b", kCompute, {k, n});
      add_bias();
      found.Add("residual", kCompute, {m, n});
      found.Add("c", kCompute, {m, n});
      return found;
  }
  throw std::logic_error("unknown epilogue");
}

Operands OfNorm(const OpDesc& op) {
  const std::int64_t t = op.dims[0], h = op.dims[1];
  const bool layer = op.kind == OpKind::kLayerNormForward || op.kind == OpKind::kLayerNormBackward;
  const bool forward = op.kind == OpKind::kLayerNormForward || op.kind == OpKind::kRmsNormForward;
  Operands found;
  if (!forward) found.Add("dy", kCompute, {t, h});
  found.Add("x", kCompute, {t, h});
  found.Add("gamma", kCompute, {h});
  if (forward && layer) found.Add("beta", kCompute, {h});
  if (forward) found.Add("y", kCompute, {t, h});
  if (layer) found.Add("mean", kStatistics, {t});
  found.Add("rstd", kStatistics, {t});
  if (forward) return found;
  found.Add("dx", kCompute, {t, h});
  found.Add("dgamma", kGradient, {h});
  if (layer) found.Add("dbeta", kGradient, {h});
  return found;
}

Operands OfHeadNorm(const OpDesc& op) {
  const std::int64_t t = op.dims[0], n = op.dims[1], d = op.dims[2], g = op.dims[3];
  const bool forward = op.kind == OpKind::kHeadNormForward;
  Operands found;
  found.Add(forward ? "qkv" : "dqkv", kCompute, {t, (n + 2 * g) * d});
  if (!forward) found.Add("raw", kCompute, {t, (n + g) * d});
  found.Add("gamma_q", kCompute, {d});
  found.Add("gamma_k", kCompute, {d});
  if (forward) found.Add("raw", kCompute, {t, (n + g) * d});
  found.Add("rstd", kStatistics, {t, n + g});
  if (forward) return found;
  found.Add("dgamma_q", kGradient, {d});
  found.Add("dgamma_k", kGradient, {d});
  return found;
}

Operands OfQkNorm(const OpDesc& op) {
  const std::int64_t t = op.dims[0], n = op.dims[1], d = op.dims[2], g = op.dims[3];
  const bool forward = op.kind == OpKind::kQkSquares || op.kind == OpKind::kQkNormForward;
  Operands found;
  found.Add(forward ? "qkv" : "dqkv", kCompute, {t, (n + 2 * g) * d});
  if (op.kind == OpKind::kQkSquares) {
    found.Add("sums", kStatistics, {t, 2});
    return found;
  }
  if (!forward) found.Add("raw", kCompute, {t, (n + g) * d});
  found.Add("gamma_q", kCompute, {n * d});
  found.Add("gamma_k", kCompute, {g * d});
  if (forward) found.Add("raw", kCompute, {t, (n + g) * d});
  found.Add("rstd", kStatistics, {t, 2});
  if (forward) return found;
  found.Add("products", kStatistics, {t, 2});
  if (op.kind == OpKind::kQkProducts) return found;
  found.Add("dgamma_q", kGradient, {n * d});
  found.Add("dgamma_k", kGradient, {g * d});
  return found;
}

Operands OfAttention(const OpDesc& op) {
  const auto [b, s, n, d, g] = op.dims;
  const std::int64_t width = (n + 2 * g) * d;
  Operands found;
  found.Add("qkv", kCompute, {b, s, width});
  found.Add("out", kCompute, {b, s, n * d});
  found.Add("lse", kStatistics, {b, n, s});
  if (op.kind == OpKind::kAttentionBackward) {
    found.Add("dout", kCompute, {b, s, n * d});
    found.Add("dqkv", kCompute, {b, s, width});
  }
  found.Add("workspace", kStatistics, {AttentionWorkspaceElements(s, d)});
  return found;
}

Operands OfUnfusedAttention(const OpDesc& op) {
  const auto [b, s, n, d, g] = op.dims;
  const std::int64_t width = (n + 2 * g) * d;
  Operands found;
  found.Add("qkv", kCompute, {b, s, width});
  found.Add("probabilities", kCompute, {b, n, s, s});
  found.Add("out", kCompute, {b, s, n * d});
  if (op.kind == OpKind::kUnfusedAttentionForward) return found;
  found.Add("dout", kCompute, {b, s, n * d});
  found.Add("dqkv", kCompute, {b, s, width});
  found.Add("dscores", kCompute, {b, n, s, s});
  return found;
}

Operands OfCrossEntropy(const OpDesc& op) {
  const std::int64_t t = op.dims[0], v = op.dims[1];
  Operands found;
  switch (op.kind) {
    case OpKind::kCrossEntropy:
      found.Add("logits", kCompute, {t, v});
      found.Add("targets", kTokenIds, {t});
      found.Add("loss", kScalar, {1});
      return found;
    case OpKind::kCrossEntropyForward:
      found.Add("logits", kCompute, {t, v});
      found.Add("targets", kTokenIds, {t});
      found.Add("max", kStatistics, {t});
      found.Add("sums", kStatistics, {2, t});
      return found;
    case OpKind::kCrossEntropyBackward:
      found.Add("logits", kCompute, {t, v});
      found.Add("sums", kStatistics, {2, t});
      found.Add("targets", kTokenIds, {t});
      return found;
    default:
      found.Add("max", kStatistics, {t});
      found.Add("sums", kStatistics, {2, t});
      if (op.kind == OpKind::kCrossEntropyLoss) found.Add("loss", kScalar, {1});
      return found;
  }
}

}  // namespace

void Operands::Add(std::string_view name, OperandKind kind, std::initializer_list<std::int64_t> shape) {
  if (count_ == kMost) throw std::logic_error("an op has more operands than Operands takes");
  Operand& operand = list_.at(count_++);
  operand.name = name;
  operand.kind = kind;
  operand.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), operand.shape.begin());
}

Operands OperandsOf(const OpDesc& op) {
  const std::int64_t rows = op.dims[0], width = op.dims[1];
  Operands found;
  switch (op.kind) {
    case OpKind::kMatmul: return OfMatmul(op);
    case OpKind::kLayerNormForward:
    case OpKind::kLayerNormBackward:
    case OpKind::kRmsNormForward:
    case OpKind::kRmsNormBackward: return OfNorm(op);
    case OpKind::kBiasResidual:
      found.Add("y", kCompute, {rows, width});
      found.Add("bias", kCompute, {width});
      found.Add("residual", kCompute, {rows, width});
      return found;
    case OpKind::kScale:
      found.Add("x", kCompute, {rows, width});
      found.Add("y", kCompute, {rows, width});
      return found;
    case OpKind::kResidualAdd:
      found.Add("y", kCompute, {rows, width});
      found.Add("residual", kCompute, {rows, width});
      return found;
    case OpKind::kActivationForward:
      found.Add("x", kCompute, {rows, 2 * width});
      if (op.bias) {
        found.Add("bias", kCompute, {2 * width});
      } else {
        found.AddAbsent("bias");
      }
      found.Add("y", kCompute, {rows, width});
      return found;
    case OpKind::kActivationBackward:
      found.Add("x", kCompute, {rows, 2 * width});
      found.Add("dy", kCompute, {rows, width});
      found.Add("dx", kCompute, {rows, 2 * width});
      return found;
    case OpKind::kHeadNormForward:
    case OpKind::kHeadNormBackward: return OfHeadNorm(op);
    case OpKind::kQkSquares:
    case OpKind::kQkNormForward:
    case OpKind::kQkProducts:
    case OpKind::kQkNormBackward: return OfQkNorm(op);
    case OpKind::kRope: found.Add("qkv", kCompute, {1, rows, width * op.dims[2]}); return found;
    case OpKind::kAttentionForward:
    case OpKind::kAttentionBackward: return OfAttention(op);
    case OpKind::kUnfusedAttentionForward:
    case OpKind::kUnfusedAttentionBackward: return OfUnfusedAttention(op);
    case OpKind::kEmbeddingForward:
      found.Add("tokens", kTokenIds, {rows});
      found.Add("table", kCompute, {op.dims[2], width});
      found.Add("out", kCompute, {rows, width});
      return found;
    case OpKind::kEmbeddingBackward:
      found.Add("tokens", kTokenIds, {rows});
      found.Add("dout", kCompute, {rows, width});
      found.Add("dtable", kGradient, {op.dims[2], width});
      return found;
    case OpKind::kPositionForward:
      found.Add("y", kCompute, {rows, width});
      found.Add("table", kCompute, {rows, width});
      return found;
    case OpKind::kPositionBackward:
      found.Add("dy", kCompute, {1, rows, width});
      found.Add("dtable", kGradient, {rows, width});
      return found;
    case OpKind::kCrossEntropy:
    case OpKind::kCrossEntropyForward:
    case OpKind::kCrossEntropyRescale:
    case OpKind::kCrossEntropyLoss:
    case OpKind::kCrossEntropyBackward: return OfCrossEntropy(op);
    case OpKind::kSumOfSquares:
      found.Add("x", kCompute, {rows});
      found.Add("result", kScalar, {1});
      return found;
    case OpKind::kAdamW:
      found.Add("param", kCompute, {rows});
      found.Add("grad", kGradient, {rows});
      if (op.master_weights) {
        found.Add("master", kStatistics, {rows});
      } else {
        found.AddAbsent("master");
      }
      found.Add("m", kStatistics, {rows});
      found.Add("v", kStatistics, {rows});
      return found;
    case OpKind::kFill:
    case OpKind::kAllReduceSum:
    case OpKind::kAllReduceMax:
    case OpKind::kSend:
    case OpKind::kRecv:
    case OpKind::kReduceScatter:
    case OpKind::kAllGather: found.Add("y", kCompute, {rows}); return found;
  }
  throw std::logic_error("an op of no known kind has no operands");
}

DType TypeInStep(OperandKind kind, DType compute) {
  switch (kind) {
    case kCompute:
    case kResult: return compute;
    case kGradient:
    case kStatistics: return compute == DType::kF64 ? DType::kF64 : DType::kF32;
    case kTokenIds: return DType::kI32;
    case kScalar: return DType::kF64;
  }
  throw std::logic_error("unknown kind of operand");
}

}  // namespace autocfg
