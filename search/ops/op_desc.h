// One operation that a rank issues: its kind, its sizes, its element type. layer_ops lists them for a plan, the
// dry device records them, a calibration job carries them and answers with their times.
// Plain values, thread-safe.
//
// The letters of `dims`, by kind (T tokens = micro_batch x S, S sequence, H row width, N local heads, D head
// dimension, V local vocabulary, n elements):
//   kMatmul                              {m, n, k, 0}: C[m,n] (+)= op(A)[m,k] op(B)[k,n]
//   kLayerNorm{Forward,Backward}         {T, H, 0, 0}
//   kBiasAdd, kBiasResidual, kBiasGradient, kBiasGelu, kGeluBackward, kPosition{Forward,Backward}   {T, width, 0, 0}
//   kAttention{Forward,Backward}         {micro_batch, S, N, D}
//   kEmbedding{Forward,Backward}         {T, H, V, 0}
//   kCrossEntropy{Max,Sum,Backward}      {T, V, 0, 0};   kCrossEntropyLoss {T, 0, 0, 0}
//   kFill, kSumOfSquares, kAdamW, kAllReduce{Sum,Max}, kSend, kRecv     {n, 0, 0, 0}
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "search/ops/dtype.h"

namespace autocfg {

enum class OpKind : std::uint8_t {
  kMatmul,
  kLayerNormForward,
  kLayerNormBackward,
  kBiasAdd,        // y += b
  kBiasResidual,   // y += b + residual
  kBiasGradient,   // db += column sums of dy
  kBiasGelu,       // x += b; y = gelu(x)
  kGeluBackward,   // dy *= gelu'(x)
  kAttentionForward,
  kAttentionBackward,
  kEmbeddingForward,
  kEmbeddingBackward,
  kPositionForward,
  kPositionBackward,
  kCrossEntropyMax,
  kCrossEntropySum,
  kCrossEntropyLoss,
  kCrossEntropyBackward,
  kFill,
  kSumOfSquares,
  kAdamW,
  kAllReduceSum,
  kAllReduceMax,
  kSend,
  kRecv,
};
inline constexpr int kOpKindCount = static_cast<int>(OpKind::kRecv) + 1;

// The ranks that a communication op spans; kNone for compute.
enum class CommGroup : std::uint8_t { kNone, kTensor, kData, kPipeline, kEmbedding, kWorld };

struct OpDesc {
  OpKind kind = OpKind::kMatmul;
  DType dtype = DType::kF32;
  bool transpose_a = false;  // kMatmul only
  bool transpose_b = false;  // kMatmul only
  bool accumulate = false;   // kMatmul: C += rather than C =
  CommGroup group = CommGroup::kNone;
  std::int32_t group_size = 1;
  std::array<std::int64_t, 4> dims{};

  auto operator<=>(const OpDesc&) const = default;
};

std::string_view Name(OpKind kind);         // "matmul", "layer_norm_forward", ...
std::string_view Name(CommGroup group);     // "none", "tensor", "data", "pipeline", "embedding", "world"
std::optional<OpKind> ParseOpKind(std::string_view name);
std::optional<CommGroup> ParseCommGroup(std::string_view name);
int DimCount(OpKind kind);  // how many of `dims` the kind uses; the others are 0

constexpr bool IsCommunication(OpKind kind) { return kind >= OpKind::kAllReduceSum; }

// One line, e.g. "matmul fp32 nt acc 512x768x3072" or "all_reduce_sum fp32 tensor/4 65536".
std::string ToString(const OpDesc& op);

// Floating-point operations of the op: 2mnk for a matrix product; for attention 4*B*N*S*S*D forward and
// 10*B*N*S*S*D backward (scores are computed again), full rather than causal; 0 for all other kinds.
double Flops(const OpDesc& op);

// Bytes that the op must at least read and write once, from its dims and element type.
double MinBytes(const OpDesc& op);

struct OpDescHash {
  std::size_t operator()(const OpDesc& op) const noexcept;
};

}  // namespace autocfg
