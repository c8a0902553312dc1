// One operation that a rank issues: its kind, its sizes, its element type. layer_ops lists them for a plan, the
// dry device records them, a calibration job carries them and answers with their times.
// Plain values, thread-safe.
//
// The letters of `dims`, by kind (T tokens = micro_batch x S, S sequence, H row width, N local heads, G local key-value heads,
// D head dimension, F feed-forward width, V local vocabulary, n elements):
//   kMatmul                              {m, n, k}: C[m,n] (+)= op(A)[m,k] op(B)[k,n]
//   k{LayerNorm,RmsNorm}{Forward,Backward}  {T, H}
//   kBiasAdd, kBiasResidual, kResidualAdd, kBiasGradient, kPosition{Forward,Backward}   {T, width}
//   kActivation{Forward,Backward}        {T, F}: F is the width of the result; a gated activation reads 2F
//   kRope                                {T, heads turned, D}
//   k{,Unfused}Attention{Forward,Backward}  {micro_batch, S, N, D, G}
//   kEmbedding{Forward,Backward}         {T, H, V}
//   kCrossEntropy{Max,Sum,Backward}      {T, V};   kCrossEntropyLoss {T}
//   kFill, kSumOfSquares, kAdamW, kAllReduce{Sum,Max}, kSend, kRecv     {n}
//   kAllGather                           {n}: elements of the whole, of which each rank brings n / group_size
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "search/ops/activation.h"
#include "search/ops/dtype.h"

namespace autocfg {

enum class OpKind : std::uint8_t {
  kMatmul,
  kLayerNormForward,
  kLayerNormBackward,
  kRmsNormForward,
  kRmsNormBackward,
  kBiasAdd,             // y += b
  kBiasResidual,        // y += b + residual
  kResidualAdd,         // y += residual
  kBiasGradient,        // db += column sums of dy
  kActivationForward,   // x += b where there is a bias; y = f(x), or f(gate) * up
  kActivationBackward,  // dx = the gradient by x
  kRope,                // rotary embedding, or its inverse
  kAttentionForward,
  kAttentionBackward,
  kUnfusedAttentionForward,   // as frameworks did before fused kernels: scores are stored. Predicted only
  kUnfusedAttentionBackward,  // predicted only
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
  kAllGather,  // predicted only
};
inline constexpr int kOpKindCount = static_cast<int>(OpKind::kAllGather) + 1;

// The ranks that a communication op spans; kNone for compute.
enum class CommGroup : std::uint8_t { kNone, kTensor, kData, kPipeline, kEmbedding, kWorld };

struct OpDesc {
  OpKind kind = OpKind::kMatmul;
  DType dtype = DType::kF32;
  bool transpose_a = false;  // kMatmul only
  bool transpose_b = false;  // kMatmul only
  bool accumulate = false;   // kMatmul: C += rather than C =
  bool bias = false;         // kActivationForward only: a bias is added first
  bool master_weights = false;  // kAdamW: a copy of the weights in the optimizer's type is updated too
  Activation activation = Activation::kGelu;  // kActivation{Forward,Backward}; elsewhere as it is here
  CommGroup group = CommGroup::kNone;
  std::int32_t group_size = 1;
  std::array<std::int64_t, 5> dims{};

  auto operator<=>(const OpDesc&) const = default;
};

std::string_view Name(OpKind kind);         // "matmul", "layer_norm_forward", ...
std::string_view Name(CommGroup group);     // "none", "tensor", "data", "pipeline", "embedding", "world"
std::optional<OpKind> ParseOpKind(std::string_view name);
std::optional<CommGroup> ParseCommGroup(std::string_view name);
int DimCount(OpKind kind);  // how many of `dims` the kind uses; the others are 0

constexpr bool HasActivation(OpKind kind) {
  return kind == OpKind::kActivationForward || kind == OpKind::kActivationBackward;
}
constexpr bool IsCommunication(OpKind kind) { return kind >= OpKind::kAllReduceSum; }

// One line, e.g. "matmul fp32 nt acc 512x768x3072", "activation_forward fp32 swiglu 512x3072" or "all_reduce_sum fp32 tensor/4 65536".
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
