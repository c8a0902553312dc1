#include "kernels/op_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string_view>

#include "search/ops/memory_sizes.h"

namespace autocfg::op_check {
namespace {

using Dims = std::initializer_list<std::int64_t>;

std::span<const std::int64_t> ShapeOf(const Tensor& t) {
  return {t.shape.data(), static_cast<std::size_t>(t.rank)};
}

[[noreturn]] void Fail(OpKind op, const std::string& what) {
  throw std::invalid_argument(fmt::format("{}: {}", Name(op), what));
}

bool IsFloating(DType type) { return type != DType::kI32; }
bool IsStatistics(DType type) { return type == DType::kF32 || type == DType::kF64; }

void RequireRank(OpKind op, std::string_view name, const Tensor& t, int rank) {
  if (t.rank != rank) Fail(op, fmt::format("{} has rank {}, not {}", name, t.rank, rank));
  for (std::int64_t dim : ShapeOf(t)) {
    if (dim < 1)
      Fail(op, fmt::format("{} is [{}]; every size must be at least 1", name, fmt::join(ShapeOf(t), ", ")));
  }
}

void RequireShape(OpKind op, std::string_view name, const Tensor& t, Dims dims) {
  if (!std::ranges::equal(ShapeOf(t), dims)) {
    Fail(op, fmt::format("{} is [{}], not [{}]", name, fmt::join(ShapeOf(t), ", "), fmt::join(dims, ", ")));
  }
}

void RequireType(OpKind op, std::string_view name, const Tensor& t, DType type) {
  if (t.dtype != type) Fail(op, fmt::format("{} is {}, not {}", name, Name(t.dtype), Name(type)));
}

// Requires a tensor of the op's compute type.
void Same(OpKind op, std::string_view name, const Tensor& t, Dims dims, DType type) {
  RequireShape(op, name, t, dims);
  RequireType(op, name, t, type);
}

void Main(OpKind op, std::string_view name, const Tensor& t, int rank) {
  RequireRank(op, name, t, rank);
  if (!IsFloating(t.dtype)) Fail(op, fmt::format("{} is {}, not a floating-point type", name, Name(t.dtype)));
}

// Requires the gradient of a parameter: any floating-point type.
void Gradient(OpKind op, std::string_view name, const Tensor& t, Dims dims) {
  RequireShape(op, name, t, dims);
  if (!IsFloating(t.dtype)) Fail(op, fmt::format("{} is {}, not a floating-point type", name, Name(t.dtype)));
}

void Statistics(OpKind op, std::string_view name, const Tensor& t, Dims dims) {
  RequireShape(op, name, t, dims);
  if (!IsStatistics(t.dtype)) Fail(op, fmt::format("{} is {}, not fp32 or fp64", name, Name(t.dtype)));
}

void TokenIds(OpKind op, std::string_view name, const Tensor& t, std::int64_t tokens) {
  RequireShape(op, name, t, {tokens});
  RequireType(op, name, t, DType::kI32);
}

OpDesc Desc(OpKind op, DType type, std::array<std::int64_t, 5> dims) {
  OpDesc desc;
  desc.kind = op;
  desc.dtype = type;
  desc.dims = dims;
  return desc;
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

// Checks x[T,W] of compute type and bias[W].
OpDesc WithBias(OpKind op, std::string_view name, const Tensor& x, const Tensor& bias) {
  Main(op, name, x, 2);
  Same(op, "bias", bias, {x.shape[1]}, x.dtype);
  return RowsDesc(op, x);
}

OpDesc Attention(OpKind op, const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& out,
                 const Tensor& lse, const Tensor& workspace) {
  Main(op, "qkv", qkv, 3);
  const std::int64_t batch = qkv.shape[0], seq = qkv.shape[1], width = qkv.shape[2];
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    Fail(op, fmt::format("{} key-value heads do not divide {} heads", kv_heads, heads));
  }
  if (width % (heads + 2 * kv_heads) != 0) {
    Fail(op, fmt::format("a qkv width of {} is not {} heads and twice {} key-value heads of one size", width,
                         heads, kv_heads));
  }
  const std::int64_t head_dim = width / (heads + 2 * kv_heads);
  Same(op, "out", out, {batch, seq, heads * head_dim}, qkv.dtype);
  Statistics(op, "lse", lse, {batch, heads, seq});
  RequireType(op, "workspace", workspace, lse.dtype);
  const std::int64_t needed = AttentionWorkspaceElements(seq, head_dim);
  if (workspace.Elements() < needed) {
    Fail(op, fmt::format("workspace has {} elements; {} are needed", workspace.Elements(), needed));
  }
  return Desc(op, qkv.dtype, {batch, seq, heads, head_dim, kv_heads});
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

OpDesc Embedding(OpKind op, const Tensor& tokens, std::string_view table_name, const Tensor& table,
                 std::string_view rows_name, const Tensor& rows) {
  Main(op, rows_name, rows, 2);
  Main(op, table_name, table, 2);
  RequireShape(op, table_name, table, {table.shape[0], rows.shape[1]});
  TokenIds(op, "tokens", tokens, rows.shape[0]);
  return Desc(op, rows.dtype, {rows.shape[0], rows.shape[1], table.shape[0], 0});
}

OpDesc Position(OpKind op, std::string_view rows_name, const Tensor& rows, std::string_view table_name,
                const Tensor& table) {
  Main(op, rows_name, rows, 3);
  Main(op, table_name, table, 2);
  if (table.shape[0] < rows.shape[1] || table.shape[1] != rows.shape[2]) {
    Fail(op, fmt::format("{} is [{}]; at least [{}, {}] is needed", table_name,
                         fmt::join(ShapeOf(table), ", "), rows.shape[1], rows.shape[2]));
  }
  return Desc(op, rows.dtype, {rows.shape[0] * rows.shape[1], rows.shape[2], 0, 0});
}

void Logits(OpKind op, const Tensor& logits, std::int64_t valid) {
  Main(op, "logits", logits, 2);
  if (valid < 0 || valid > logits.shape[1]) {
    Fail(op, fmt::format("{} valid columns in logits of {}", valid, logits.shape[1]));
  }
}

OpDesc TokenSums(OpKind op, const Tensor& max, const Tensor& sums) {
  RequireRank(op, "sums", sums, 2);
  Statistics(op, "sums", sums, {2, sums.shape[1]});
  Same(op, "max", max, {sums.shape[1]}, sums.dtype);
  return Desc(op, sums.dtype, {sums.shape[1], 0, 0, 0});
}

}  // namespace

OpDesc Matmul(const Tensor& a, Transpose ta, const Tensor& b, Transpose tb, const Tensor& c,
              bool accumulate) {
  constexpr OpKind op = OpKind::kMatmul;
  Main(op, "a", a, 2);
  Main(op, "b", b, 2);
  Main(op, "c", c, 2);
  RequireType(op, "b", b, a.dtype);
  const std::int64_t m = c.shape[0], n = c.shape[1];
  const std::int64_t k = ta == Transpose::kYes ? a.shape[0] : a.shape[1];
  if (ta == Transpose::kYes) RequireShape(op, "a (transposed)", a, {k, m});
  if (ta == Transpose::kNo) RequireShape(op, "a", a, {m, k});
  if (tb == Transpose::kYes) RequireShape(op, "b (transposed)", b, {n, k});
  if (tb == Transpose::kNo) RequireShape(op, "b", b, {k, n});
  OpDesc desc = Desc(op, a.dtype, {m, n, k, 0});
  desc.transpose_a = ta == Transpose::kYes;
  desc.transpose_b = tb == Transpose::kYes;
  desc.accumulate = accumulate;
  return desc;
}

OpDesc MatmulBias(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c) {
  const OpDesc desc = WithEpilogue(Matmul(a, Transpose::kNo, b, Transpose::kNo, c, false), Epilogue::kBias);
  RequireType(desc.kind, "c", c, a.dtype);
  Same(desc.kind, "bias", bias, {desc.dims[1]}, a.dtype);
  return desc;
}

OpDesc MatmulResidual(const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& residual,
                      const Tensor& c) {
  OpDesc desc = WithEpilogue(Matmul(a, Transpose::kNo, b, Transpose::kNo, c, false), Epilogue::kResidual);
  desc.bias = bias.IsPresent();
  RequireType(desc.kind, "c", c, a.dtype);
  if (desc.bias) Same(desc.kind, "bias", bias, {desc.dims[1]}, a.dtype);
  Same(desc.kind, "residual", residual, {desc.dims[0], desc.dims[1]}, a.dtype);
  if (IsSameMemory(c, residual)) Fail(desc.kind, "c must not alias residual");
  return desc;
}

OpDesc MatmulActivation(Activation activation, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& pre, const Tensor& y) {
  NotGated(activation);
  OpDesc desc = WithEpilogue(Matmul(a, Transpose::kNo, b, Transpose::kNo, pre, false), Epilogue::kActivation);
  desc.activation = activation;
  desc.bias = bias.IsPresent();
  RequireType(desc.kind, "pre", pre, a.dtype);
  if (desc.bias) Same(desc.kind, "bias", bias, {desc.dims[1]}, a.dtype);
  Same(desc.kind, "y", y, {desc.dims[0], desc.dims[1]}, a.dtype);
  if (IsSameMemory(y, pre)) Fail(desc.kind, "y must not alias pre, which the backward needs");
  return desc;
}

OpDesc MatmulActivationBackward(Activation activation, const Tensor& dy, const Tensor& b, const Tensor& pre,
                                const Tensor& dpre) {
  NotGated(activation);
  OpDesc desc = WithEpilogue(Matmul(dy, Transpose::kNo, b, Transpose::kYes, dpre, false),
                             Epilogue::kActivationGradient);
  desc.activation = activation;
  RequireType(desc.kind, "dpre", dpre, dy.dtype);
  Same(desc.kind, "pre", pre, {desc.dims[0], desc.dims[1]}, dy.dtype);
  if (IsSameMemory(dpre, pre)) Fail(desc.kind, "dpre must not alias pre");
  return desc;
}

OpDesc MatmulBiasGradient(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                          bool accumulate) {
  const OpDesc desc =
      WithEpilogue(Matmul(x, Transpose::kYes, dy, Transpose::kNo, dw, accumulate), Epilogue::kBiasGradient);
  Same(desc.kind, "dbias", dbias, {desc.dims[1]}, dw.dtype);
  return desc;
}

OpDesc LayerNormForward(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd) {
  constexpr OpKind op = OpKind::kLayerNormForward;
  Main(op, "x", x, 2);
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  Same(op, "gamma", gamma, {width}, x.dtype);
  Same(op, "beta", beta, {width}, x.dtype);
  Same(op, "y", y, {rows, width}, x.dtype);
  Statistics(op, "mean", mean, {rows});
  Statistics(op, "rstd", rstd, {rows});
  return RowsDesc(op, x);
}

OpDesc LayerNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& mean,
                         const Tensor& rstd, const Tensor& dx, bool add_to_dx, const Tensor& dgamma,
                         const Tensor& dbeta, bool accumulate) {
  constexpr OpKind op = OpKind::kLayerNormBackward;
  Main(op, "x", x, 2);
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  Same(op, "dy", dy, {rows, width}, x.dtype);
  Same(op, "gamma", gamma, {width}, x.dtype);
  Statistics(op, "mean", mean, {rows});
  Statistics(op, "rstd", rstd, {rows});
  Same(op, "dx", dx, {rows, width}, x.dtype);
  Gradient(op, "dgamma", dgamma, {width});
  Gradient(op, "dbeta", dbeta, {width});
  if (add_to_dx && dx.data != nullptr && dx.data == dy.data)
    Fail(op, "dx must not alias dy if it is added to");
  return Adding(RowsDesc(op, x), accumulate);
}

OpDesc RmsNormForward(const Tensor& x, const Tensor& gamma, const Tensor& y, const Tensor& rstd) {
  constexpr OpKind op = OpKind::kRmsNormForward;
  Main(op, "x", x, 2);
  Same(op, "gamma", gamma, {x.shape[1]}, x.dtype);
  Same(op, "y", y, {x.shape[0], x.shape[1]}, x.dtype);
  Statistics(op, "rstd", rstd, {x.shape[0]});
  return RowsDesc(op, x);
}

OpDesc RmsNormBackward(const Tensor& dy, const Tensor& x, const Tensor& gamma, const Tensor& rstd,
                       const Tensor& dx, bool add_to_dx, const Tensor& dgamma, bool accumulate) {
  constexpr OpKind op = OpKind::kRmsNormBackward;
  Main(op, "x", x, 2);
  const std::int64_t rows = x.shape[0], width = x.shape[1];
  Same(op, "dy", dy, {rows, width}, x.dtype);
  Same(op, "gamma", gamma, {width}, x.dtype);
  Statistics(op, "rstd", rstd, {rows});
  Same(op, "dx", dx, {rows, width}, x.dtype);
  Gradient(op, "dgamma", dgamma, {width});
  if (add_to_dx && dx.data != nullptr && dx.data == dy.data)
    Fail(op, "dx must not alias dy if it is added to");
  return Adding(RowsDesc(op, x), accumulate);
}

OpDesc BiasResidual(const Tensor& y, const Tensor& bias, const Tensor& residual) {
  const OpDesc desc = WithBias(OpKind::kBiasResidual, "y", y, bias);
  Same(desc.kind, "residual", residual, {y.shape[0], y.shape[1]}, y.dtype);
  return desc;
}

OpDesc ResidualAdd(const Tensor& y, const Tensor& residual) {
  constexpr OpKind op = OpKind::kResidualAdd;
  Main(op, "y", y, 2);
  Same(op, "residual", residual, {y.shape[0], y.shape[1]}, y.dtype);
  return RowsDesc(op, y);
}

OpDesc ActivationForward(Activation activation, const Tensor& x, const Tensor& bias, const Tensor& y) {
  OpDesc desc = ActivationOp(OpKind::kActivationForward, activation, x);
  desc.bias = bias.IsPresent();
  if (desc.bias) Same(desc.kind, "bias", bias, {x.shape[1]}, x.dtype);
  Same(desc.kind, "y", y, {desc.dims[0], desc.dims[1]}, x.dtype);
  if (IsSameMemory(y, x)) Fail(desc.kind, "y must not alias x, which the backward needs");
  return desc;
}

OpDesc ActivationBackward(Activation activation, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const OpDesc desc = ActivationOp(OpKind::kActivationBackward, activation, x);
  Same(desc.kind, "dy", dy, {desc.dims[0], desc.dims[1]}, x.dtype);
  Same(desc.kind, "dx", dx, {x.shape[0], x.shape[1]}, x.dtype);
  if (IsSameMemory(dx, dy)) Fail(desc.kind, "dx must not alias dy");
  return desc;
}

OpDesc Rope(const Tensor& qkv, std::int64_t heads_turned, std::int64_t head_dim, double theta) {
  constexpr OpKind op = OpKind::kRope;
  Main(op, "qkv", qkv, 3);
  if (head_dim < 2 || head_dim % 2 != 0)
    Fail(op, fmt::format("invalid head dimension {}; it must be even and at least 2", head_dim));
  if (heads_turned < 1 || heads_turned > qkv.shape[2] / head_dim) {
    Fail(op, fmt::format("cannot rotate {} heads of {} elements in rows of {}", heads_turned, head_dim,
                         qkv.shape[2]));
  }
  if (!(theta > 0) || !std::isfinite(theta)) Fail(op, fmt::format("theta is {}; it must be positive", theta));
  return Desc(op, qkv.dtype, {qkv.shape[0] * qkv.shape[1], heads_turned, head_dim});
}

OpDesc AttentionForward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& out,
                        const Tensor& lse, const Tensor& workspace) {
  return Attention(OpKind::kAttentionForward, qkv, heads, kv_heads, out, lse, workspace);
}

OpDesc AttentionBackward(const Tensor& qkv, std::int64_t heads, std::int64_t kv_heads, const Tensor& out,
                         const Tensor& lse, const Tensor& dout, const Tensor& dqkv, const Tensor& workspace) {
  const OpDesc desc = Attention(OpKind::kAttentionBackward, qkv, heads, kv_heads, out, lse, workspace);
  Same(desc.kind, "dout", dout, {out.shape[0], out.shape[1], out.shape[2]}, qkv.dtype);
  Same(desc.kind, "dqkv", dqkv, {qkv.shape[0], qkv.shape[1], qkv.shape[2]}, qkv.dtype);
  return desc;
}

OpDesc EmbeddingForward(const Tensor& tokens, const Tensor& table, const Tensor& out) {
  const OpDesc desc = Embedding(OpKind::kEmbeddingForward, tokens, "table", table, "out", out);
  RequireType(desc.kind, "table", table, out.dtype);
  return desc;
}

OpDesc EmbeddingBackward(const Tensor& tokens, const Tensor& dout, const Tensor& dtable, bool accumulate) {
  return Adding(Embedding(OpKind::kEmbeddingBackward, tokens, "dtable", dtable, "dout", dout), accumulate);
}

OpDesc PositionForward(const Tensor& y, const Tensor& table) {
  const OpDesc desc = Position(OpKind::kPositionForward, "y", y, "table", table);
  RequireType(desc.kind, "table", table, y.dtype);
  return desc;
}

OpDesc PositionBackward(const Tensor& dy, const Tensor& dtable, bool accumulate) {
  return Adding(Position(OpKind::kPositionBackward, "dy", dy, "dtable", dtable), accumulate);
}

OpDesc CrossEntropy(const Tensor& logits, std::int64_t valid, const Tensor& targets, const Tensor& loss) {
  constexpr OpKind op = OpKind::kCrossEntropy;
  Logits(op, logits, valid);
  if (valid == 0) Fail(op, "no column is valid; whole rows need at least 1");
  TokenIds(op, "targets", targets, logits.shape[0]);
  Same(op, "loss", loss, {1}, DType::kF64);
  return RowsDesc(op, logits);
}

OpDesc CrossEntropyForward(const Tensor& logits, std::int64_t valid, const Tensor& targets, const Tensor& max,
                           const Tensor& sums) {
  constexpr OpKind op = OpKind::kCrossEntropyForward;
  Logits(op, logits, valid);
  TokenIds(op, "targets", targets, logits.shape[0]);
  Statistics(op, "max", max, {logits.shape[0]});
  Statistics(op, "sums", sums, {2, logits.shape[0]});
  return RowsDesc(op, logits);
}

OpDesc CrossEntropyRescale(const Tensor& max, const Tensor& sums) {
  return TokenSums(OpKind::kCrossEntropyRescale, max, sums);
}

OpDesc CrossEntropyLoss(const Tensor& max, const Tensor& sums, const Tensor& loss) {
  constexpr OpKind op = OpKind::kCrossEntropyLoss;
  Same(op, "loss", loss, {1}, DType::kF64);
  return TokenSums(op, max, sums);
}

OpDesc CrossEntropyBackward(const Tensor& logits, std::int64_t valid, const Tensor& sums,
                            const Tensor& targets) {
  constexpr OpKind op = OpKind::kCrossEntropyBackward;
  Logits(op, logits, valid);
  Statistics(op, "sums", sums, {2, logits.shape[0]});
  TokenIds(op, "targets", targets, logits.shape[0]);
  return RowsDesc(op, logits);
}

OpDesc Fill(const Tensor& y) {
  constexpr OpKind op = OpKind::kFill;
  Main(op, "y", y, y.rank);
  return Desc(op, y.dtype, {y.Elements(), 0, 0, 0});
}

OpDesc SumOfSquares(std::span<const Tensor> tensors, const Tensor& result) {
  constexpr OpKind op = OpKind::kSumOfSquares;
  if (tensors.empty()) Fail(op, "no tensors");
  Same(op, "result", result, {1}, DType::kF64);
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
  if (params.clip_norm != 0) Same(op, "squared_norm", params.squared_norm, {1}, DType::kF64);
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
