#include "kernels/op_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/op_operands.h"

namespace autocfg {
namespace {

std::span<const std::int64_t> ShapeOf(const Tensor& t) {
  return {t.shape.data(), static_cast<std::size_t>(t.rank)};
}

[[noreturn]] void Fail(OpKind op, const std::string& what) {
  throw std::invalid_argument(fmt::format("{}: {}", Name(op), what));
}

void RequireRank(OpKind op, std::string_view name, const Tensor& t, std::size_t rank) {
  if (t.rank != static_cast<int>(rank)) Fail(op, fmt::format("{} has rank {}, not {}", name, t.rank, rank));
}

void RequireType(OpKind op, std::string_view name, const Tensor& t, DType type) {
  if (t.dtype != type) Fail(op, fmt::format("{} is {}, not {}", name, Name(t.dtype), Name(type)));
}

void RequireFloating(OpKind op, std::string_view name, const Tensor& t) {
  if (t.dtype == DType::kI32 || t.dtype == DType::kI8)
    Fail(op, fmt::format("{} is {}, not a floating-point type", name, Name(t.dtype)));
}

void RequireScalar(OpKind op, std::string_view name, const Tensor& t) {
  if (t.rank != 1 || t.shape[0] != 1)
    Fail(op, fmt::format("{} is [{}], not [1]", name, fmt::join(ShapeOf(t), ", ")));
  RequireType(op, name, t, DType::kF64);
}

// Checks what the descriptor alone says.
void RequireForm(const OpDesc& op, std::string_view letters) {
  if (op.kind == OpKind::kMatmul && HasActivation(op) && IsGated(op.activation)) {
    Fail(op.kind,
         fmt::format("{} is gated; use activation_forward and activation_backward", Name(op.activation)));
  }
  if (op.kind == OpKind::kActivationBackward && !IsGated(op.activation)) {
    Fail(op.kind, fmt::format("{} is not gated; use a matmul with its gradient", Name(op.activation)));
  }
  if (letters.find('G') != std::string_view::npos) {
    const std::int64_t heads = Extent(op, 'N'), kv_heads = Extent(op, 'G');
    if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
      Fail(op.kind, fmt::format("{} key-value heads do not divide {} heads", kv_heads, heads));
  }
}

// Returns the F of rows of 2F elements (F if the activation is not gated), or the D of rows of (N + 2G) D.
std::int64_t DimOfWidth(const OpDesc& op, char letter, std::int64_t width) {
  if (letter == 'W') {
    if (!IsGated(op.activation)) return width;
    if (width % 2 == 0) return width / 2;
    Fail(op.kind, fmt::format("x has width {}; {} needs an even width, half gates and half ups", width,
                              Name(op.activation)));
  }
  const std::int64_t heads = Extent(op, 'N'), kv_heads = Extent(op, 'G');
  if (width % (heads + 2 * kv_heads) == 0) return width / (heads + 2 * kv_heads);
  Fail(op.kind, fmt::format("a qkv width of {} is not {} heads and twice {} key-value heads of one size",
                            width, heads, kv_heads));
}

void RequireSizes(OpKind op, std::string_view name, const Tensor& t) {
  for (const std::int64_t size : ShapeOf(t)) {
    if (size < 1)
      Fail(op, fmt::format("{} is [{}]; every size must be at least 1", name, fmt::join(ShapeOf(t), ", ")));
  }
}

// Returns whether a dim of the operand has the size that its letter stands for. Sets a dim of the op that is
// not known yet.
bool Fits(OpDesc& op, std::string_view letters, char letter, std::int64_t size) {
  const bool wide = letter == 'W' || letter == 'Q';
  const char of = letter == 'W' ? 'F' : letter == 'Q' ? 'D' : letter;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (letters[i] != of) continue;
    if (op.dims[i] == 0) op.dims[i] = wide ? DimOfWidth(op, letter, size) : size;
    return (wide ? Extent(op, letter) : op.dims[i]) == size;
  }
  return Extent(op, letter) == size;
}

void RequireShape(OpDesc& op, std::string_view letters, const Operand& operand, const Tensor& t) {
  RequireRank(op.kind, operand.name, t, operand.shape.size());
  RequireSizes(op.kind, operand.name, t);
  bool fits = true;
  for (std::size_t i = 0; i < operand.shape.size(); ++i)
    fits = Fits(op, letters, operand.shape[i], t.shape[i]) && fits;
  if (fits) return;
  std::vector<std::int64_t> wanted;
  for (const char letter : operand.shape) wanted.push_back(Extent(op, letter));
  Fail(op.kind, fmt::format("{} is [{}], not [{}]", operand.name, fmt::join(ShapeOf(t), ", "),
                            fmt::join(wanted, ", ")));
}

// The types that several operands of an op share.
class SharedTypes {
 public:
  explicit SharedTypes(OpDesc& op) : op_(op) {}

  void Require(const Operand& operand, const Tensor& t) {
    switch (operand.kind) {
      case OperandKind::kCompute:
        if (compute_ == nullptr) RequireFloating(op_.kind, operand.name, t);
        Require(compute_, operand, t);
        op_.dtype = compute_->dtype;
        return;
      case OperandKind::kResult: return RequireFloating(op_.kind, operand.name, t);
      case OperandKind::kGradient:
        RequireFloating(op_.kind, operand.name, t);
        Require(gradient_, operand, t);
        op_.gradients = t.dtype == GradientType(op_.dtype) ? std::optional<DType>() : std::optional(t.dtype);
        return;
      case OperandKind::kMoment:
        RequireFloating(op_.kind, operand.name, t);
        Require(moment_, operand, t);
        op_.moments = t.dtype;
        return;
      case OperandKind::kMaster:
        RequireFloating(op_.kind, operand.name, t);
        op_.master = t.dtype;
        return;
      case OperandKind::kStatistics:
        if (t.dtype != DType::kF32 && t.dtype != DType::kF64)
          Fail(op_.kind, fmt::format("{} is {}, not fp32 or fp64", operand.name, Name(t.dtype)));
        Require(statistic_, operand, t);
        if (compute_ == nullptr) op_.dtype = t.dtype;
        return;
      case OperandKind::kTokenIds: return RequireType(op_.kind, operand.name, t, DType::kI32);
      case OperandKind::kScalar: return RequireType(op_.kind, operand.name, t, DType::kF64);
    }
  }

 private:
  void Require(const Tensor*& first, const Operand& operand, const Tensor& t) const {
    if (first == nullptr) first = &t;
    RequireType(op_.kind, operand.name, t, first->dtype);
  }

  OpDesc& op_;
  const Tensor* compute_ = nullptr;
  const Tensor* gradient_ = nullptr;
  const Tensor* moment_ = nullptr;
  const Tensor* statistic_ = nullptr;
};

void RequireApart(OpKind op, std::string_view name, const Tensor& a, std::string_view other, const Tensor& b,
                  std::string_view why = "") {
  if (a.data != nullptr && a.data == b.data)
    Fail(op, fmt::format("{} must not alias {}{}", name, other, why));
}

void RequireProduct(const OpCall& call) {
  switch (call.desc.epilogue) {
    case Epilogue::kActivation:
      return RequireApart(call.desc.kind, "y", call[4], "pre", call[3], ", which the backward needs");
    case Epilogue::kActivationGradient: return RequireApart(call.desc.kind, "dpre", call[3], "pre", call[2]);
    case Epilogue::kResidual: return RequireApart(call.desc.kind, "c", call[4], "residual", call[3]);
    case Epilogue::kNone:
    case Epilogue::kBias:
    case Epilogue::kBiasGradient: return;
  }
}

void RequireRanks(const OpCall& call) {
  if (call.args.ranks < 1) {
    Fail(call.desc.kind,
         fmt::format("there are {} ranks in the tensor group; at least 1 is needed", call.args.ranks));
  }
}

void RequireRotation(OpCall& call) {
  OpDesc& op = call.desc;
  const Tensor& qkv = call[0];
  RequireRank(op.kind, "qkv", qkv, 3);
  const std::int64_t heads = op.dims[1], head_dim = op.dims[2], rotary_dims = op.dims[3];
  if (rotary_dims < 2 || rotary_dims % 2 != 0 || rotary_dims > head_dim) {
    Fail(op.kind,
         fmt::format("cannot rotate {} of a head's {} dims; their number must be even and at least 2",
                     rotary_dims, head_dim));
  }
  if (heads < 1 || heads > qkv.shape[2] / head_dim) {
    Fail(op.kind,
         fmt::format("cannot rotate {} heads of {} elements in rows of {}", heads, head_dim, qkv.shape[2]));
  }
  const RotaryFrequencies& frequencies = *call.args.frequencies;
  const auto require_positive = [&op](std::string_view name, double number) {
    if (!(number > 0) || !std::isfinite(number))
      Fail(op.kind, fmt::format("{} is {}; it must be positive", name, number));
  };
  require_positive("theta", frequencies.theta);
  require_positive("factor", frequencies.factor);
  const auto scales = static_cast<std::int64_t>(frequencies.scales.size());
  if (scales != 0 && scales != rotary_dims / 2)
    Fail(op.kind, fmt::format("there are {} scales for {} frequencies", scales, rotary_dims / 2));
  for (const double scale : frequencies.scales) require_positive("a scale", scale);
  op.dims[0] = qkv.shape[0] * qkv.shape[1];
}

// `what`: scores or logits.
void RequireSoftCap(OpKind op, std::string_view what, double softcap) {
  if (softcap >= 0 && std::isfinite(softcap)) return;
  Fail(op, fmt::format("the soft cap of {} is {}; it must be positive, or 0 for none", what, softcap));
}

void RequireScores(OpCall& call) {
  OpDesc& op = call.desc;
  AttentionForm& form = call.args.form;
  RequireSoftCap(op.kind, "scores", form.softcap);
  if (form.window < 0)
    Fail(op.kind, fmt::format("the window is {}; it must be positive, or 0 for none", form.window));
  // A window as wide as the sequence has no effect, and takes the same kernels as none.
  if (form.window >= Extent(op, 'S')) op.window = form.window = 0;
  if (!(form.scale >= 0) || !std::isfinite(form.scale)) {
    Fail(op.kind,
         fmt::format("the scale of scores is {}; it must be positive, or 0 for 1 / sqrt(D)", form.scale));
  }
  if (form.alibi_heads < 0 || form.first_head < 0 ||
      (form.HasAlibi() && form.first_head > form.alibi_heads - form.heads)) {
    Fail(op.kind, fmt::format("there are no slopes for {} heads from head {} of {} on", form.heads,
                              form.first_head, form.alibi_heads));
  }
}

void RequireWorkspace(const OpCall& call, const Tensor& workspace) {
  const std::int64_t needed = Extent(call.desc, 'w');
  if (workspace.Elements() < needed) {
    Fail(call.desc.kind,
         fmt::format("workspace has {} elements; {} are needed", workspace.Elements(), needed));
  }
}

// Requires a table of at least `seq_len` rows.
void RequirePositions(const OpCall& call, std::string_view name, std::int64_t seq_len) {
  const Tensor& table = call[1];
  RequireRank(call.desc.kind, name, table, 2);
  if (table.shape[0] < seq_len || table.shape[1] != call.desc.dims[1]) {
    Fail(call.desc.kind, fmt::format("{} is [{}]; at least [{}, {}] is needed", name,
                                     fmt::join(ShapeOf(table), ", "), seq_len, call.desc.dims[1]));
  }
}

void RequireColumns(const OpCall& call) {
  const OpDesc& op = call.desc;
  if (call.args.valid < 0 || call.args.valid > op.dims[1])
    Fail(op.kind, fmt::format("{} valid columns in logits of {}", call.args.valid, op.dims[1]));
  RequireSoftCap(op.kind, "logits", call.args.softcap);
  if (op.kind == OpKind::kCrossEntropy && call.args.valid == 0)
    Fail(op.kind, "no column is valid; whole rows need at least 1");
}

void RequireColumnsWithin(const OpCall& call) {
  const OpDesc& op = call.desc;
  const Tensor& rows = call[1];
  RequireRank(op.kind, "rows", rows, 2);
  const std::int64_t first = call.args.first, width = op.dims[1];
  if (rows.shape[0] != op.dims[0] || first < 0 || first > rows.shape[1] - width) {
    Fail(op.kind, fmt::format("{} columns from {} on, of {} rows, are not in [{}]", width, first, op.dims[0],
                              fmt::join(ShapeOf(rows), ", ")));
  }
}

void RequireSummed(OpCall& call) {
  OpDesc& op = call.desc;
  op.dims[0] = 0;
  for (const Tensor& x : call.summed) {
    RequireSizes(op.kind, "x", x);
    RequireType(op.kind, "x", x, op.dtype);
    op.dims[0] += x.Elements();
  }
}

void RequireUpdated(OpCall& call) {
  OpDesc& op = call.desc;
  if (call.params->clip_norm != 0) RequireScalar(op.kind, "squared_norm", call.params->squared_norm);
  op.dims[0] = 0;
  const UpdatedTensor& first = call.updated.front();
  for (const UpdatedTensor& t : call.updated) {
    const auto like_param = [&](std::string_view name, const Tensor& tensor, DType type) {
      if (!std::ranges::equal(ShapeOf(tensor), ShapeOf(t.param))) {
        Fail(op.kind, fmt::format("{} is [{}], the parameter [{}]", name, fmt::join(ShapeOf(tensor), ", "),
                                  fmt::join(ShapeOf(t.param), ", ")));
      }
      RequireType(op.kind, name, tensor, type);
    };
    RequireSizes(op.kind, "param", t.param);
    like_param("param", t.param, op.dtype);
    like_param("grad", t.grad, first.grad.dtype);
    if (t.m.IsPresent() != op.moments.has_value())
      Fail(op.kind, "some tensors have no moment; all or none must have one");
    if (op.moments) like_param("m", t.m, first.m.dtype);
    if (op.kind == OpKind::kAdamW) like_param("v", t.v, first.m.dtype);
    if (t.master.IsPresent() != op.master.has_value())
      Fail(op.kind, "some tensors have no master copy; all or none must have one");
    if (op.master) like_param("master", t.master, first.master.dtype);
    op.dims[0] += t.param.Elements();
  }
}

// What the operands' shapes and types do not say. Sets the dims of ops whose operands are open.
void RequireRules(OpCall& call) {
  OpDesc& op = call.desc;
  const OpArgs& args = call.args;
  switch (op.kind) {
    case OpKind::kMatmul: return RequireProduct(call);
    case OpKind::kLayerNormBackward:
      if (args.add_to_dx) RequireApart(op.kind, "dx", call[5], "dy", call[0], " if it is added to");
      return;
    case OpKind::kRmsNormBackward:
      if (args.add_to_dx) RequireApart(op.kind, "dx", call[4], "dy", call[0], " if it is added to");
      return;
    case OpKind::kScale:
      if (!std::isfinite(args.factor))
        Fail(op.kind, fmt::format("factor is {}; it must be finite", args.factor));
      return;
    case OpKind::kCopyColumns: return RequireColumnsWithin(call);
    case OpKind::kActivationForward:
      return RequireApart(op.kind, "y", call[2], "x", call[0], ", which the backward needs");
    case OpKind::kActivationBackward: return RequireApart(op.kind, "dx", call[2], "dy", call[1]);
    case OpKind::kQkNormForward:
    case OpKind::kQkNormBackward: return RequireRanks(call);
    case OpKind::kRope: return RequireRotation(call);
    case OpKind::kAttentionForward: RequireScores(call); return RequireWorkspace(call, call[3]);
    case OpKind::kAttentionBackward: RequireScores(call); return RequireWorkspace(call, call[5]);
    case OpKind::kUnfusedAttentionForward: return RequireScores(call);
    case OpKind::kUnfusedAttentionBackward:
      RequireScores(call);
      return RequireApart(op.kind, "dscores", call[5], "probabilities", call[1]);
    case OpKind::kPositionForward:
      if (args.seq_len < 1 || args.first < 0)
        Fail(op.kind, fmt::format("sequences of {} tokens, from token {} on", args.seq_len, args.first));
      return RequirePositions(call, "table", args.seq_len);
    case OpKind::kPositionBackward:
      RequireRank(op.kind, "dy", call[0], 3);
      op.dims = {call[0].shape[0] * call[0].shape[1], call[0].shape[2]};
      return RequirePositions(call, "dtable", call[0].shape[1]);
    case OpKind::kCrossEntropy:
    case OpKind::kCrossEntropyForward:
    case OpKind::kCrossEntropyBackward: return RequireColumns(call);
    case OpKind::kFill: op.dims[0] = call[0].Elements(); return;
    case OpKind::kSumOfSquares: return RequireSummed(call);
    case OpKind::kAdamW:
    case OpKind::kSgd: return RequireUpdated(call);
    default: return;
  }
}

}  // namespace

void CheckOp(OpCall& call) {
  OpDesc& op = call.desc;
  const std::string_view letters = DimLetters(op.kind);
  RequireForm(op, letters);
  SharedTypes types(op);
  std::size_t i = 0;
  for (const Operand& operand : OperandsOf(op)) {
    const Tensor& t = call[i++];
    if (!operand.IsIn(op)) continue;
    if (operand.open) {
      RequireSizes(op.kind, operand.name, t);
    } else {
      RequireShape(op, letters, operand, t);
    }
    types.Require(operand, t);
  }
  RequireRules(call);
}

}  // namespace autocfg
