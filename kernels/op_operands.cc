#include "kernels/op_operands.h"

#include <cstddef>
#include <stdexcept>

#include "search/ops/memory_sizes.h"

namespace autocfg {
namespace {

constexpr Operand Own(std::string_view name, std::string_view shape) {
  return {name, OperandKind::kCompute, shape};
}
constexpr Operand Grad(std::string_view name, std::string_view shape) {
  return {name, OperandKind::kGradient, shape};
}
constexpr Operand Stat(std::string_view name, std::string_view shape) {
  return {name, OperandKind::kStatistics, shape};
}
constexpr Operand Ids(std::string_view name) { return {name, OperandKind::kTokenIds, "T"}; }
constexpr Operand Sum(std::string_view name) { return {name, OperandKind::kScalar, "1"}; }
constexpr Operand Optional(Operand operand, Presence presence = Presence::kIfBias) {
  operand.presence = presence;
  return operand;
}
constexpr Operand Open(Operand operand) {
  operand.open = true;
  return operand;
}

// The operands of updates of parameters.
constexpr Operand kParam = Open(Own("param", "n")), kGrad = Open(Grad("grad", "n"));
constexpr Operand kMaster = Optional(Open({"master", OperandKind::kMaster, "n"}), Presence::kIfMaster);
constexpr Operand kMoment = Open({"m", OperandKind::kMoment, "n"});

// c = op(a) op(b).
std::span<const Operand> OfPlainProduct(bool transpose_a, bool transpose_b) {
  static constexpr Operand kA = Own("a", "mk"), kTurnedA = Own("a (transposed)", "km");
  static constexpr Operand kB = Own("b", "kn"), kTurnedB = Own("b (transposed)", "nk");
  static constexpr Operand kC{"c", OperandKind::kResult, "mn"}, kGradientC = Grad("c", "mn");
  static constexpr Operand kForms[2][2][3] = {{{kA, kB, kC}, {kA, kTurnedB, kC}},
                                              {{kTurnedA, kB, kGradientC}, {kTurnedA, kTurnedB, kGradientC}}};
  return kForms[transpose_a ? 1 : 0][transpose_b ? 1 : 0];
}

std::span<const Operand> OfProduct(const OpDesc& op) {
  switch (op.epilogue) {
    case Epilogue::kNone: return OfPlainProduct(op.transpose_a, op.transpose_b);
    case Epilogue::kBias: {
      static constexpr Operand kRow[] = {Own("a", "mk"), Own("b", "kn"), Own("bias", "n"), Own("c", "mn")};
      return kRow;
    }
    case Epilogue::kActivation: {
      static constexpr Operand kRow[] = {Own("a", "mk"), Own("b", "kn"), Optional(Own("bias", "n")),
                                         Own("pre", "mn"), Own("y", "mn")};
      return kRow;
    }
    case Epilogue::kActivationGradient: {
      static constexpr Operand kRow[] = {Own("dy", "mk"), Own("b (transposed)", "nk"), Own("pre", "mn"),
                                         Own("dpre", "mn")};
      return kRow;
    }
    case Epilogue::kBiasGradient: {
      static constexpr Operand kRow[] = {Own("x (transposed)", "km"), Own("dy", "kn"), Grad("dw", "mn"),
                                         Grad("dbias", "n")};
      return kRow;
    }
    case Epilogue::kResidual: {
      static constexpr Operand kRow[] = {Own("a", "mk"), Own("b", "kn"), Optional(Own("bias", "n")),
                                         Own("residual", "mn"), Own("c", "mn")};
      return kRow;
    }
  }
  throw std::logic_error("unknown epilogue");
}

}  // namespace

std::span<const Operand> OperandsOf(const OpDesc& op) {
  switch (op.kind) {
    case OpKind::kMatmul: return OfProduct(op);
    case OpKind::kLayerNormForward: {
      static constexpr Operand kRow[] = {Own("x", "TH"), Own("gamma", "H"), Own("beta", "H"),
                                         Own("y", "TH"), Stat("mean", "T"), Stat("rstd", "T")};
      return kRow;
    }
    case OpKind::kLayerNormBackward: {
      static constexpr Operand kRow[] = {Own("dy", "TH"),     Own("x", "TH"),    Own("gamma", "H"),
                                         Stat("mean", "T"),   Stat("rstd", "T"), Own("dx", "TH"),
                                         Grad("dgamma", "H"), Grad("dbeta", "H")};
      return kRow;
    }
    case OpKind::kRmsNormForward: {
      static constexpr Operand kRow[] = {Own("x", "TH"), Own("gamma", "H"), Own("y", "TH"),
                                         Stat("rstd", "T")};
      return kRow;
    }
    case OpKind::kRmsNormBackward: {
      static constexpr Operand kRow[] = {Own("dy", "TH"),   Own("x", "TH"),  Own("gamma", "H"),
                                         Stat("rstd", "T"), Own("dx", "TH"), Grad("dgamma", "H")};
      return kRow;
    }
    case OpKind::kBiasResidual: {
      static constexpr Operand kRow[] = {Own("y", "TH"), Own("bias", "H"), Own("residual", "TH")};
      return kRow;
    }
    case OpKind::kResidualAdd: {
      static constexpr Operand kRow[] = {Own("y", "TH"), Own("residual", "TH")};
      return kRow;
    }
    case OpKind::kScale: {
      static constexpr Operand kRow[] = {Own("x", "TH"), Own("y", "TH")};
      return kRow;
    }
    case OpKind::kCopyColumns: {
      static constexpr Operand kRow[] = {Own("columns", "TH"), Open(Own("rows", "TH"))};
      return kRow;
    }
    case OpKind::kActivationForward: {
      static constexpr Operand kRow[] = {Own("x", "TW"), Optional(Own("bias", "W")), Own("y", "TF")};
      return kRow;
    }
    case OpKind::kActivationBackward: {
      static constexpr Operand kRow[] = {Own("x", "TW"), Own("dy", "TF"), Own("dx", "TW")};
      return kRow;
    }
    case OpKind::kHeadNormForward: {
      static constexpr Operand kRow[] = {Own("qkv", "TQ"), Own("gamma_q", "D"), Own("gamma_k", "D"),
                                         Own("raw", "TK"), Stat("rstd", "TJ")};
      return kRow;
    }
    case OpKind::kHeadNormBackward: {
      static constexpr Operand kRow[] = {Own("dqkv", "TQ"),    Own("raw", "TK"),   Own("gamma_q", "D"),
                                         Own("gamma_k", "D"),  Stat("rstd", "TJ"), Grad("dgamma_q", "D"),
                                         Grad("dgamma_k", "D")};
      return kRow;
    }
    case OpKind::kQkSquares: {
      static constexpr Operand kRow[] = {Own("qkv", "TQ"), Stat("sums", "T2")};
      return kRow;
    }
    case OpKind::kQkNormForward: {
      static constexpr Operand kRow[] = {Own("qkv", "TQ"), Own("gamma_q", "O"), Own("gamma_k", "L"),
                                         Own("raw", "TK"), Stat("rstd", "T2")};
      return kRow;
    }
    case OpKind::kQkProducts: {
      static constexpr Operand kRow[] = {Own("dqkv", "TQ"),   Own("raw", "TK"),   Own("gamma_q", "O"),
                                         Own("gamma_k", "L"), Stat("rstd", "T2"), Stat("products", "T2")};
      return kRow;
    }
    case OpKind::kQkNormBackward: {
      static constexpr Operand kRow[] = {Own("dqkv", "TQ"),     Own("raw", "TK"),     Own("gamma_q", "O"),
                                         Own("gamma_k", "L"),   Stat("rstd", "T2"),   Stat("products", "T2"),
                                         Grad("dgamma_q", "O"), Grad("dgamma_k", "L")};
      return kRow;
    }
    case OpKind::kRope: {  // one sequence of all tokens, with the rotated heads alone
      static constexpr Operand kRow[] = {Open(Own("qkv", "1TX"))};
      return kRow;
    }
    case OpKind::kAttentionForward: {
      static constexpr Operand kRow[] = {Own("qkv", "BSQ"), Own("out", "BSO"), Stat("lse", "BNS"),
                                         Open(Stat("workspace", "w"))};
      return kRow;
    }
    case OpKind::kAttentionBackward: {
      static constexpr Operand kRow[] = {Own("qkv", "BSQ"),  Own("out", "BSO"),
                                         Stat("lse", "BNS"), Own("dout", "BSO"),
                                         Own("dqkv", "BSQ"), Open(Stat("workspace", "w"))};
      return kRow;
    }
    case OpKind::kUnfusedAttentionForward: {
      static constexpr Operand kRow[] = {Own("qkv", "BSQ"), Own("probabilities", "BNSS"), Own("out", "BSO")};
      return kRow;
    }
    case OpKind::kUnfusedAttentionBackward: {
      static constexpr Operand kRow[] = {Own("qkv", "BSQ"),  Own("probabilities", "BNSS"),
                                         Own("out", "BSO"),  Own("dout", "BSO"),
                                         Own("dqkv", "BSQ"), Own("dscores", "BNSS")};
      return kRow;
    }
    case OpKind::kEmbeddingForward: {
      static constexpr Operand kRow[] = {Ids("tokens"), Own("table", "VH"), Own("out", "TH")};
      return kRow;
    }
    case OpKind::kEmbeddingBackward: {
      static constexpr Operand kRow[] = {Ids("tokens"), Own("dout", "TH"), Grad("dtable", "VH")};
      return kRow;
    }
    case OpKind::kPositionForward: {  // as many positions as tokens
      static constexpr Operand kRow[] = {Own("y", "TH"), Open(Own("table", "TH"))};
      return kRow;
    }
    case OpKind::kPositionBackward: {  // one sequence of all tokens
      static constexpr Operand kRow[] = {Open(Own("dy", "1TH")), Open(Grad("dtable", "TH"))};
      return kRow;
    }
    case OpKind::kCrossEntropy: {
      static constexpr Operand kRow[] = {Own("logits", "TV"), Ids("targets"), Sum("loss")};
      return kRow;
    }
    case OpKind::kCrossEntropyForward: {
      static constexpr Operand kRow[] = {Own("logits", "TV"), Ids("targets"), Stat("max", "T"),
                                         Stat("sums", "2T")};
      return kRow;
    }
    case OpKind::kCrossEntropyRescale: {
      static constexpr Operand kRow[] = {Stat("max", "T"), Stat("sums", "2T")};
      return kRow;
    }
    case OpKind::kCrossEntropyLoss: {
      static constexpr Operand kRow[] = {Stat("max", "T"), Stat("sums", "2T"), Sum("loss")};
      return kRow;
    }
    case OpKind::kCrossEntropyBackward: {
      static constexpr Operand kRow[] = {Own("logits", "TV"), Stat("sums", "2T"), Ids("targets")};
      return kRow;
    }
    case OpKind::kSumOfSquares: {  // of the first tensor
      static constexpr Operand kRow[] = {Open(Own("x", "n")), Sum("result")};
      return kRow;
    }
    case OpKind::kAdamW: {  // of the first tensor
      static constexpr Operand kRow[] = {kParam, kGrad, kMaster, kMoment,
                                         Open({"v", OperandKind::kMoment, "n"})};
      return kRow;
    }
    case OpKind::kSgd: {  // of the first tensor
      static constexpr Operand kRow[] = {kParam, kGrad, kMaster, Optional(kMoment, Presence::kIfMoments)};
      return kRow;
    }
    case OpKind::kFill:
    case kFirstCommunication ... kLastCommunication: {
      static constexpr Operand kRow[] = {Open(Own("y", "n"))};
      return kRow;
    }
  }
  throw std::logic_error("an op of no known kind has no operands");
}

std::int64_t Extent(const OpDesc& op, char letter) {
  if (letter == '1') return 1;
  if (letter == '2') return 2;
  const std::string_view letters = DimLetters(op.kind);
  const auto dim = [&](char of) {
    for (std::size_t i = 0; i < letters.size(); ++i) {
      if (letters[i] == of) return op.dims[i];
    }
    throw std::logic_error("a shape has a letter that its op does not know");
  };
  switch (letter) {
    case 'W': return (IsGated(op.activation) ? 2 : 1) * dim('F');
    case 'Q': return (dim('N') + 2 * dim('G')) * dim('D');
    case 'K': return (dim('N') + dim('G')) * dim('D');
    case 'J': return dim('N') + dim('G');
    case 'O': return dim('N') * dim('D');
    case 'L': return dim('G') * dim('D');
    case 'X': return dim('R') * dim('D');
    case 'w': return AttentionWorkspaceElements(dim('S'), dim('D'));
    default: return dim(letter);
  }
}

DType TypeInStep(OperandKind kind, const OpDesc& op) {
  switch (kind) {
    case OperandKind::kCompute:
    case OperandKind::kResult: return op.dtype;
    case OperandKind::kGradient: return op.gradients.value_or(GradientType(op.dtype));
    case OperandKind::kStatistics: return GradientType(op.dtype);
    case OperandKind::kMoment: return op.moments.value();
    case OperandKind::kMaster: return op.master.value();
    case OperandKind::kTokenIds: return DType::kI32;
    case OperandKind::kScalar: return DType::kF64;
  }
  throw std::logic_error("unknown kind of operand");
}

}  // namespace autocfg
