#include "kernels/op_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string_view>

#include "kernels/op_operands.h"
#include "search/ops/memory_sizes.h"

namespace autocfg::op_check {
namespace {

std::span<const std::int64_t> ShapeOf(const Tensor& t) {
  return {t.shape.data(), static_cast<std::size_t>(t.rank)};
}

[[noreturn]] void Fail(OpKind op, const std::string& what) {
  throw std::invalid_argument(fmt::format("{}: {}", Name(op), what));
}

bool IsFloating(DType type) { return type != DType::kI32; }

void RequireRank(OpKind op, std::string_view name, const Tensor& t, int rank) {
  if (t.rank != rank) Fail(op, fmt::format("{} has rank {}, not {}", name, t.rank, rank));
  for (std::int64_t dim : ShapeOf(t)) {
    if (dim < 1)
      Fail(op, fmt::format("{} is [{}]; every size must be at least 1", name, fmt::join(ShapeOf(t), ", ")));
  }
}

void RequireType(OpKind op, std::string_view name, const Tensor& t, DType type) {
  if (t.dtype != type) Fail(op, fmt::format("{} is {}, not {}", name, Name(t.dtype), Name(type)));
}

// Requires a tensor that the op's descriptor can be made of.
void Main(OpKind op, std::string_view name, const Tensor& t, int rank) {
  RequireRank(op, name, t, rank);
  if (!IsFloating(t.dtype)) Fail(op, fmt::format("{} is {}, not a floating-point type", name, Name(t.dtype)));
}

void RequireKind(const OpDesc& op, const Operand& operand, const Tensor& t) {
  switch (operand.kind) {
    case OperandKind::kCompute: return RequireType(op.kind, operand.name, t, op.dtype);
    case OperandKind::kResult:
    case OperandKind::kGradient:
      if (IsFloating(t.dtype)) return;
      return Fail(op.kind, fmt::format("{} is {}, not a floating-point type", operand.name, Name(t.dtype)));
    case OperandKind::kStatistics:
      if (t.dtype == DType::kF32 || t.dtype == DType::kF64) return;
      return Fail(op.kind, fmt::format("{} is {}, not fp32 or fp64", operand.name, Name(t.dtype)));
    case OperandKind::kTokenIds: return RequireType(op.kind, operand.name, t, DType::kI32);
    case OperandKind::kScalar: return RequireType(op.kind, operand.name, t, DType::kF64);
  }
}

void RequireOperand(const OpDesc& op, const Operand& operand, const Tensor& t) {
  if (!operand.IsPresent()) return;
  if (!std::ranges::equal(ShapeOf(t), operand.Shape())) {
    Fail(op.kind, fmt::format("{} is [{}], not [{}]", operand.name, fmt::join(ShapeOf(t), ", "),
                              fmt::join(operand.Shape(), ", ")));
  }
  RequireKind(op, operand, t);
}

OpDesc Desc(OpKind op, DType type, std::array<std::int64_t, 5> dims) {
  OpDesc desc;
  desc.kind = op;
  desc.dtype = type;
  desc.dims = dims;
  return desc;
}

void RequireScalar(OpKind op, std::string_view name, const Tensor& t) {
  RequireOperand(Desc(op, DType::kF64, {}),
                 {.name = name, .kind = OperandKind::kScalar, .rank = 1, .shape = {1}}, t);
}

// Requires the tensors to be the op's operands, in the order of OperandsOf. Null: an operand whose shape the
// descriptor leaves open; the caller checks it. Returns the descriptor.
OpDesc WithOperands(const OpDesc& op, std::initializer_list<const Tensor*> tensors) {
  const Operands operands = OperandsOf(op);
  if (operands.all().size() != tensors.size()) throw std::logic_error("operands of an op are missing");
  const Tensor* const* tensor = tensors.begin();
  for (const Operand& operand : operands.all()) {
    if (*tensor != nullptr) RequireOperand(op, operand, **tensor);
    ++tensor;
  }
  return op;
}

// Adds the epilogue to a product.
OpDesc WithEpilogue(OpDesc product, Epilogue epilogue) {
  SetEpilogue(product, epilogue);
  return product;
}

// Rejects gated activations, which cannot be an epilogue of a product.
void NotGated(Activation activation) {
  if (IsGated(activation))
    Fail(OpKind::kMatmul,
         fmt::format("{} is gated; use activation_forward and activation_backward", Name(activation)));
}

bool IsSameMemory(const Tensor& a, const Tensor& b) { return a.data != nullptr && a.data == b.data; }

// Sets whether the op adds to gradients of parameters.
OpDesc Adding(OpDesc op, bool accumulate) {
  op.accumulate = accumulate;
  return op;
}

OpDesc RowsDesc(OpKind op, const Tensor& t) { return Desc(op, t.dtype, {t.shape[0], t.shape[1], 0, 0}); }

// Returns the D of rows of `width` elements that are N heads and twice G key-value heads.
std::int64_t HeadDimOf(OpKind op, std::int64_t width, std::int64_t heads, std::int64_t kv_heads) {
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    Fail(op, fmt::format("{} key-value heads do not divide {} heads", kv_heads, heads));
  }
  if (width % (heads + 2 * kv_heads) != 0) {
    Fail(op, fmt::format("a qkv width of {} is not {} heads and twice {} key-value heads of one size", width,
                         heads, kv_heads));
  }
  return width / (heads + 2 * kv_heads);
}

void RequireRanks(OpKind op, std::int64_t ranks) {
  if (ranks < 1) Fail(op, fmt::format("there are {} ranks in the tensor group; at least 1 is needed", ranks));
}

OpDesc HeadNorm(OpKind op, std::string_view name, const Tensor& rows, std::int64_t heads,
                std::int64_t kv_heads) {
  Main(op, name, rows, 2);
  return Desc(op, rows.dtype,
              {rows.shape[0], heads, HeadDimOf(op, rows.shape[1], heads, kv_heads), kv_heads});
}

// Checks qkv and how it divides into heads.
OpDesc AttentionHeads(OpKind op, const Tensor& qkv, const AttentionForm& form) {
  Main(op, "qkv", qkv, 3);
  const std::int64_t heads = form.heads, kv_heads = form.kv_heads;
  const std::int64_t head_dim = HeadDimOf(op, qkv.shape[2], heads, kv_heads);
  if (!(form.scale >= 0) || !std::isfinite(form.scale))
    Fail(op, fmt::format("the scale of scores is {}; it must be positive, or 0 for 1 / sqrt(D)", form.scale));
  if (form.alibi_heads < 0 || form.first_head < 0 ||
      (form.HasAlibi() && form.first_head > form.alibi_heads - heads)) {
    Fail(op, fmt::format("there are no slopes for {} heads from head {} of {} on", heads, form.first_head,
                         form.alibi_heads));
  }
  OpDesc desc = Desc(op, qkv.dtype, {qkv.shape[0], qkv.shape[1], heads, head_dim, kv_heads});
  desc.alibi = form.HasAlibi();
  return desc;
}

OpDesc Attention(OpKind op, const Tensor& qkv, const AttentionForm& form, const Tensor& lse,
                 const Tensor& workspace) {
  const OpDesc desc = AttentionHeads(op, qkv, form);
  RequireType(op, "workspace", workspace, lse.dtype);
  const std::int64_t needed = AttentionWorkspaceElements(desc.dims[1], desc.dims[3]);
  if (workspace.Elements() < needed) {
    Fail(op, fmt::format("workspace has {} elements; {} are needed", workspace.Elements(), needed));
  }
  return desc;
}

// Checks x[T,W]; the result of the activation has shape [T,F].
OpDesc ActivationOp(OpKind op, Activation activation, const Tensor& x) {
  Main(op, "x", x, 2);
  const std::int64_t width = x.shape[1];
  if (!IsGated(activation))
    Fail(op, fmt::format("{} is not gated; use a matmul with this activation", Name(activation)));
  if (width % 2 != 0)
    Fail(op, fmt::format("x has width {}; {} needs an even width, half gates and half ups", width,
                         Name(activation)));
  OpDesc desc = Desc(op, x.dtype, {x.shape[0], width / 2});
  desc.activation = activation;
  return desc;
}

OpDesc Embedding(OpKind op, std::string_view table_name, const Tensor& table, std::string_view rows_name,
                 const Tensor& rows) {
  Main(op, rows_name, rows, 2);
  Main(op, table_name, table, 2);
  return Desc(op, rows.dtype, {rows.shape[0], rows.shape[1], table.shape[0], 0});
}

// Checks a table of at least `seq_len` rows of `width` elements.
void CheckPositions(OpKind op, std::string_view name, const Tensor& table, std::int64_t seq_len,
                    std::int64_t width) {
  Main(op, name, table, 2);
  if (table.shape[0] < seq_len || table.shape[1] != width) {
    Fail(op, fmt::format("{} is [{}]; at least [{}, {}] is needed", name, fmt::join(ShapeOf(table), ", "),
                         seq_len, width));
  }
}

OpDesc Logits(OpKind op, const Tensor& logits, std::int64_t valid) {
  Main(op, "logits", logits, 2);
  if (valid < 0 || valid > logits.shape[1]) {
    Fail(op, fmt::format("{} valid columns in logits of {}", valid, logits.shape[1]));
  }
  return RowsDesc(op, logits);
}

OpDesc TokenSums(OpKind op, const Tensor& max, const Tensor& sums) {
  RequireRank(op, "sums", sums, 2);
  RequireType(op, "max", max, sums.dtype);
  return Desc(op, sums.dtype, {sums.shape[1], 0, 0, 0});
}

// A product by the sizes of its operands, as op(a) op(b).
OpDesc Product(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb) {
  constexpr OpKind op = OpKind::kMatmul;
  Main(op, "a", a, 2);
  Main(op, "b", b, 2);
  const bool turn_a = ta == Transpose::kYes, turn_b = tb == Transpose::kYes;
  OpDesc desc =
      Desc(op, a.dtype, {a.shape[turn_a ? 1 : 0], b.shape[turn_b ? 0 : 1], a.shape[turn_a ? 0 : 1], 0});
  desc.transpose_a = turn_a;
  desc.transpose_b = turn_b;
  return desc;
}

}  // namespace

OpDesc Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c,
              bool accumulate) {
  return WithOperands(Adding(Product(a, ta, b, tb), accumulate), {&a, &b, &c});
}

OpDesc MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c) {
  const OpDesc desc = WithEpilogue(Product(a, Transpose::kNo, b, Transpose::kNo), Epilogue::kBias);
  return WithOperands(desc, {&a, &b, &bias, &c});
}

OpDesc MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                      const Tensor& c) {
  OpDesc desc = WithEpilogue(Product(a, Transpose::kNo, b, Transpose::kNo), Epilogue::kResidual);
  desc.bias = bias.IsPresent();
  if (IsSameMemory(c, residual)) Fail(desc.kind, "c must not alias residual");
  return WithOperands(desc, {&a, &b, &bias, &residual, &c});
}

OpDesc MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y) {
  NotGated(activation);
  OpDesc desc = WithEpilogue(Product(a, Transpose::kNo, b, Transpose::kNo), Epilogue::kActivation);
  desc.activation = activation;
  desc.bias = bias.IsPresent();
  if (IsSameMemory(y, pre)) Fail(desc.kind, "y must not alias pre, which the backward needs");
  return WithOperands(desc, {&a, &b, &bias, &pre, &y});
}

OpDesc MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre) {
  NotGated(activation);
  OpDesc desc = WithEpilogue(Product(dy, Transpose::kNo, b, Transpose::kYes), Epilogue::kActivationGradient);
  desc.activation = activation;
  if (IsSameMemory(dpre, pre)) Fail(desc.kind, "dpre must not alias pre");
  return WithOperands(desc, {&dy, &b, &pre, &dpre});
}

OpDesc MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          bool accumulate) {
  const OpDesc desc = Adding(
      WithEpilogue(Product(x, Transpose::kYes, dy, Transpose::kNo), Epilogue::kBiasGradient), accumulate);
  RequireType(desc.kind, "dbias", dbias, dw.dtype);
  return WithOperands(desc, {&x, &dy, &dw, &dbias});
}

OpDesc LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd) {
  constexpr OpKind op = OpKind::kLayerNormForward;
  Main(op, "x", x, 2);
  return WithOperands(RowsDesc(op, x), {&x, &gamma, &beta, &y, &mean, &rstd});
}

OpDesc LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                         const Tensor& dbeta, bool accumulate) {
  constexpr OpKind op = OpKind::kLayerNormBackward;
  Main(op, "x", x, 2);
  if (add_to_dx && IsSameMemory(dx, dy)) Fail(op, "dx must not alias dy if it is added to");
  return WithOperands(Adding(RowsDesc(op, x), accumulate),
                      {&dy, &x, &gamma, &mean, &rstd, &dx, &dgamma, &dbeta});
}

OpDesc RmsNormForward(const Tensor& x, const Tensor& gamma, const Tensor& y, const Tensor& rstd) {
  constexpr OpKind op = OpKind::kRmsNormForward;
  Main(op, "x", x, 2);
  return WithOperands(RowsDesc(op, x), {&x, &gamma, &y, &rstd});
}

OpDesc RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate) {
  constexpr OpKind op = OpKind::kRmsNormBackward;
  Main(op, "x", x, 2);
  if (add_to_dx && IsSameMemory(dx, dy)) Fail(op, "dx must not alias dy if it is added to");
  return WithOperands(Adding(RowsDesc(op, x), accumulate), {&dy, &x, &gamma, &rstd, &dx, &dgamma});
}

OpDesc BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual) {
  constexpr OpKind op = OpKind::kBiasResidual;
  Main(op, "y", y, 2);
  return WithOperands(RowsDesc(op, y), {&y, &bias, &residual});
}

OpDesc ResidualAdd(const Tensor& y, const Tensor& residual) {
  constexpr OpKind op = OpKind::kResidualAdd;
  Main(op, "y", y, 2);
  return WithOperands(RowsDesc(op, y), {&y, &residual});
}

OpDesc Scale(const Tensor& x, double factor, const Tensor& y) {
  constexpr OpKind op = OpKind::kScale;
  Main(op, "x", x, 2);
  if (!std::isfinite(factor)) Fail(op, fmt::format("factor is {}; it must be finite", factor));
  return WithOperands(RowsDesc(op, x), {&x, &y});
}

OpDesc ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y) {
  OpDesc desc = ActivationOp(OpKind::kActivationForward, activation, x);
  desc.bias = bias.IsPresent();
  if (IsSameMemory(y, x)) Fail(desc.kind, "y must not alias x, which the backward needs");
  return WithOperands(desc, {&x, &bias, &y});
}

OpDesc ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const OpDesc desc = ActivationOp(OpKind::kActivationBackward, activation, x);
  if (IsSameMemory(dx, dy)) Fail(desc.kind, "dx must not alias dy");
  return WithOperands(desc, {&x, &dy, &dx});
}

OpDesc HeadNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& gamma_q,
                       const Tensor& gamma_k, const Tensor& raw, const Tensor& rstd) {
  const OpDesc desc = HeadNorm(OpKind::kHeadNormForward, "qkv", qkv, heads, kv_heads);
  return WithOperands(desc, {&qkv, &gamma_q, &gamma_k, &raw, &rstd});
}

OpDesc HeadNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                        const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                        const Tensor& dgamma_q, const Tensor& dgamma_k, bool accumulate) {
  const OpDesc desc = HeadNorm(OpKind::kHeadNormBackward, "dqkv", dqkv, heads, kv_heads);
  RequireType(desc.kind, "dgamma_k", dgamma_k, dgamma_q.dtype);
  return WithOperands(Adding(desc, accumulate),
                      {&dqkv, &raw, &gamma_q, &gamma_k, &rstd, &dgamma_q, &dgamma_k});
}

OpDesc QkSquares(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& sums) {
  return WithOperands(HeadNorm(OpKind::kQkSquares, "qkv", qkv, heads, kv_heads), {&qkv, &sums});
}

OpDesc QkNormForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                     const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& raw, const Tensor& rstd) {
  const OpDesc desc = HeadNorm(OpKind::kQkNormForward, "qkv", qkv, heads, kv_heads);
  RequireRanks(desc.kind, ranks);
  return WithOperands(desc, {&qkv, &gamma_q, &gamma_k, &raw, &rstd});
}

OpDesc QkProducts(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& raw,
                  const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd, const Tensor& products) {
  const OpDesc desc = HeadNorm(OpKind::kQkProducts, "dqkv", dqkv, heads, kv_heads);
  RequireType(desc.kind, "products", products, rstd.dtype);
  return WithOperands(desc, {&dqkv, &raw, &gamma_q, &gamma_k, &rstd, &products});
}

OpDesc QkNormBackward(const Tensor& dqkv, std::int64_t heads, std::int64_t kv_heads, std::int64_t ranks,
                      const Tensor& raw, const Tensor& gamma_q, const Tensor& gamma_k, const Tensor& rstd,
                      const Tensor& products, const Tensor& dgamma_q, const Tensor& dgamma_k,
                      bool accumulate) {
  const OpDesc desc = HeadNorm(OpKind::kQkNormBackward, "dqkv", dqkv, heads, kv_heads);
  RequireRanks(desc.kind, ranks);
  RequireType(desc.kind, "products", products, rstd.dtype);
  RequireType(desc.kind, "dgamma_k", dgamma_k, dgamma_q.dtype);
  return WithOperands(Adding(desc, accumulate),
                      {&dqkv, &raw, &gamma_q, &gamma_k, &rstd, &products, &dgamma_q, &dgamma_k});
}

OpDesc Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim, std::int64_t rotary_dims,
            double theta) {
  constexpr OpKind op = OpKind::kRope;
  Main(op, "qkv", qkv, 3);
  if (rotary_dims < 2 || rotary_dims % 2 != 0 || rotary_dims > head_dim) {
    Fail(op, fmt::format("cannot rotate {} of a head's {} dims; their number must be even and at least 2",
                         rotary_dims, head_dim));
  }
  if (heads_turned < 1 || heads_turned > qkv.shape[2] / head_dim) {
    Fail(op, fmt::format("cannot rotate {} heads of {} elements in rows of {}", heads_turned, head_dim,
                         qkv.shape[2]));
  }
  if (!(theta > 0) || !std::isfinite(theta)) Fail(op, fmt::format("theta is {}; it must be positive", theta));
  return Desc(op, qkv.dtype, {qkv.shape[0] * qkv.shape[1], heads_turned, head_dim, rotary_dims});
}

OpDesc AttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                        const Tensor& workspace) {
  const OpDesc desc = Attention(OpKind::kAttentionForward, qkv, form, lse, workspace);
  return WithOperands(desc, {&qkv, &out, &lse, nullptr});
}

OpDesc AttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& out, const Tensor& lse,
                         const Tensor& dout, const Tensor& dqkv, const Tensor& workspace) {
  const OpDesc desc = Attention(OpKind::kAttentionBackward, qkv, form, lse, workspace);
  return WithOperands(desc, {&qkv, &out, &lse, &dout, &dqkv, nullptr});
}

OpDesc UnfusedAttentionForward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                               const Tensor& out) {
  const OpDesc desc = AttentionHeads(OpKind::kUnfusedAttentionForward, qkv, form);
  return WithOperands(desc, {&qkv, &probabilities, &out});
}

OpDesc UnfusedAttentionBackward(const Tensor& qkv, const AttentionForm& form, const Tensor& probabilities,
                                const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                                const Tensor& dscores) {
  const OpDesc desc = AttentionHeads(OpKind::kUnfusedAttentionBackward, qkv, form);
  if (IsSameMemory(dscores, probabilities))
    Fail(desc.kind, "dscores is probabilities; they need memory of their own");
  return WithOperands(desc, {&qkv, &probabilities, &out, &dout, &dqkv, &dscores});
}

OpDesc EmbeddingForward(const Tensor& tokens, const Tensor& table, const Tensor& out) {
  return WithOperands(Embedding(OpKind::kEmbeddingForward, "table", table, "out", out),
                      {&tokens, &table, &out});
}

OpDesc EmbeddingBackward(const Tensor& tokens, const Tensor& dout, const Tensor& dtable, bool accumulate) {
  const OpDesc desc = Embedding(OpKind::kEmbeddingBackward, "dtable", dtable, "dout", dout);
  return WithOperands(Adding(desc, accumulate), {&tokens, &dout, &dtable});
}

OpDesc PositionForward(const Tensor& y, std::int64_t seq_len, std::int64_t first, const Tensor& table) {
  constexpr OpKind kOp = OpKind::kPositionForward;
  Main(kOp, "y", y, 2);
  if (seq_len < 1 || first < 0)
    Fail(kOp, fmt::format("sequences of {} tokens, from token {} on", seq_len, first));
  CheckPositions(kOp, "table", table, seq_len, y.shape[1]);
  RequireType(kOp, "table", table, y.dtype);
  return RowsDesc(kOp, y);
}

OpDesc PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate) {
  constexpr OpKind kOp = OpKind::kPositionBackward;
  Main(kOp, "dy", dy, 3);
  CheckPositions(kOp, "dtable", dtable, dy.shape[1], dy.shape[2]);
  return Adding(Desc(kOp, dy.dtype, {dy.shape[0] * dy.shape[1], dy.shape[2], 0, 0}), accumulate);
}

OpDesc CrossEntropy(const Tensor& logits, std::int64_t valid, const Tensor& targets, const Tensor& loss) {
  const OpDesc desc = Logits(OpKind::kCrossEntropy, logits, valid);
  if (valid == 0) Fail(desc.kind, "no column is valid; whole rows need at least 1");
  return WithOperands(desc, {&logits, &targets, &loss});
}

OpDesc CrossEntropyForward(const Tensor& logits, std::int64_t valid, const Tensor& targets, const Tensor& max,
                           const Tensor& sums) {
  return WithOperands(Logits(OpKind::kCrossEntropyForward, logits, valid), {&logits, &targets, &max, &sums});
}

OpDesc CrossEntropyRescale(const Tensor& max, const Tensor& sums) {
  return WithOperands(TokenSums(OpKind::kCrossEntropyRescale, max, sums), {&max, &sums});
}

OpDesc CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss) {
  return WithOperands(TokenSums(OpKind::kCrossEntropyLoss, max, sums), {&max, &sums, &loss});
}

OpDesc CrossEntropyBackward(const Tensor& logits, std::int64_t valid, const Tensor& sums,
                            const Tensor& targets) {
  return WithOperands(Logits(OpKind::kCrossEntropyBackward, logits, valid), {&logits, &sums, &targets});
}

OpDesc Fill(const Tensor& y) {
  constexpr OpKind op = OpKind::kFill;
  Main(op, "y", y, y.rank);
  return Desc(op, y.dtype, {y.Elements(), 0, 0, 0});
}

OpDesc SumOfSquares(std::span<const Tensor> tensors, const Tensor& result) {
  constexpr OpKind op = OpKind::kSumOfSquares;
  if (tensors.empty()) Fail(op, "no tensors");
  RequireScalar(op, "result", result);
  OpDesc desc = Desc(op, tensors.front().dtype, {});
  for (const Tensor& x : tensors) {
    Main(op, "x", x, x.rank);
    RequireType(op, "x", x, desc.dtype);
    desc.dims[0] += x.Elements();
  }
  return desc;
}

OpDesc AdamW(std::span<const AdamWTensor> tensors, const AdamWParams& params) {
  constexpr OpKind op = OpKind::kAdamW;
  if (tensors.empty()) Fail(op, "no tensors");
  if (params.clip_norm != 0) RequireScalar(op, "squared_norm", params.squared_norm);
  const AdamWTensor& first = tensors.front();
  OpDesc desc = Desc(op, first.param.dtype, {});
  desc.master_weights = first.master.IsPresent();
  for (const AdamWTensor& t : tensors) {
    const auto like_param = [&](std::string_view name, const Tensor& tensor, DType type) {
      if (!std::ranges::equal(ShapeOf(tensor), ShapeOf(t.param))) {
        Fail(op, fmt::format("{} is [{}], the parameter [{}]", name, fmt::join(ShapeOf(tensor), ", "),
                             fmt::join(ShapeOf(t.param), ", ")));
      }
      Main(op, name, tensor, t.param.rank);
      RequireType(op, name, tensor, type);
    };
    like_param("param", t.param, desc.dtype);
    like_param("grad", t.grad, first.grad.dtype);
    like_param("m", t.m, first.m.dtype);
    like_param("v", t.v, first.m.dtype);
    if (t.master.IsPresent() != desc.master_weights)
      Fail(op, "some tensors have no master copy; all or none must have one");
    if (desc.master_weights) like_param("master", t.master, first.m.dtype);
    desc.dims[0] += t.param.Elements();
  }
  return desc;
}

}  // namespace autocfg::op_check
