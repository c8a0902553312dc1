// One operation that a rank issues: its kind, sizes and element type. action_ops lists the operations of
// a plan, the dry device records them, and calibration jobs carry them and return their times. Plain values,
// thread-safe.
//
// DimLetters names the entries of `dims`: T tokens = micro_batch x S, B micro_batch, S sequence, H row width,
// N local heads, G local key-value heads, D head dimension, R rotated heads, r rotated dims of each,
// F feed-forward width (an activation's result; its input is 2F wide), V local vocabulary, n elements.
// A product is C[m,n] (+)= op(A)[m,k] op(B)[k,n], plus the epilogue's result. The n of a sum of squares and
// of AdamW are those of all their tensors. The n of a reduce-scatter are what each rank contributes, of
// which it keeps n / group_size; those of an all-gather are its result, to which each rank contributes
// n / group_size.
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

// Compute kinds first, communication kinds from kAllReduceSum on (IsCommunication); kAllGather stays last
// (kOpKindCount).
enum class OpKind : std::uint8_t {
  kMatmul,
  kLayerNormForward,
  kLayerNormBackward,
  kRmsNormForward,
  kRmsNormBackward,
  kBiasResidual,        // y += b + residual
  kResidualAdd,         // y += residual
  kScale,               // y = x * a number
  kCopyColumns,         // between a matrix and some columns of a wider one
  kActivationForward,   // x += b if there is a bias; y = f(gate) * up, or f(x)
  kActivationBackward,  // dx = the gradient with respect to x
  kHeadNormForward,     // RMS norms of the queries and keys of each head
  kHeadNormBackward,
  kQkSquares,  // this and the next three: RMS norms of all queries and of all keys of a token, in steps
  kQkNormForward,
  kQkProducts,
  kQkNormBackward,
  kRope,  // rotary embedding, or its inverse
  kAttentionForward,
  kAttentionBackward,
  kUnfusedAttentionForward,  // unfused kernels, which store the scores
  kUnfusedAttentionBackward,
  kEmbeddingForward,
  kEmbeddingBackward,
  kPositionForward,
  kPositionBackward,
  kCrossEntropy,         // whole rows: loss and gradient
  kCrossEntropyForward,  // this and the next three: a rank's columns, in steps
  kCrossEntropyRescale,
  kCrossEntropyLoss,
  kCrossEntropyBackward,
  kFill,
  kSumOfSquares,
  kAdamW,
  kSgd,
  kAllReduceSum,
  kAllReduceMax,
  kSend,
  kRecv,
  kReduceScatter,
  kAllGather,
};
inline constexpr int kOpKindCount = static_cast<int>(OpKind::kAllGather) + 1;
// The bounds of a case range (an extension of GCC and Clang) for switches that handle compute alone, so that
// a new communication kind changes none of them.
inline constexpr OpKind kFirstCommunication = OpKind::kAllReduceSum, kLastCommunication = OpKind::kAllGather;

// Work that a matrix product does in addition, while its operands and results are in fast memory. Each
// epilogue allows one form of the product. kResidual stays last (kEpilogueCount).
enum class Epilogue : std::uint8_t {
  kNone,
  kBias,                // c = a b + bias; nothing transposed
  kActivation,          // pre = a b (+ bias if `bias`), y = f(pre), both stored; nothing transposed
  kActivationGradient,  // dpre = (dy b^T) * f'(pre)
  kBiasGradient,        // dw (+)= x^T dy, dbias (+)= column sums of dy
  kResidual,            // c = a b (+ bias if `bias`) + residual; nothing transposed
};
inline constexpr int kEpilogueCount = static_cast<int>(Epilogue::kResidual) + 1;

// The ranks that a communication op spans; kNone for compute. Under zero the data group falls into groups of
// dp_shard ranks that share the states of one replica (kShard), and across them those that hold the same part
// (kReplica). kKvReplica has the ranks of a tensor group that hold the same key-value heads.
enum class CommGroup : std::uint8_t {
  kNone,
  kTensor,
  kData,
  kPipeline,
  kEmbedding,
  kWorld,
  kShard,
  kReplica,
  kKvReplica
};
inline constexpr std::size_t kCommGroupCount = static_cast<std::size_t>(CommGroup::kKvReplica) + 1;

// How the ranks of a group exchange data. Prediction and calibration know communication by its pattern: a
// kind of a new pattern does not compile until both know it.
enum class CommPattern : std::uint8_t { kNone, kAllReduce, kReduceScatter, kAllGather, kMessage };

struct OpDesc {
  OpKind kind = OpKind::kMatmul;
  DType dtype = DType::kF32;
  bool transpose_a = false;             // kMatmul only
  bool transpose_b = false;             // kMatmul only
  bool accumulate = false;              // only if TakesAccumulate: += rather than =
  Epilogue epilogue = Epilogue::kNone;  // kMatmul only
  bool bias = false;                    // only if TakesBias: a bias is added first
  // Only if IsAttention: a query attends to the last `window` keys up to itself; 0: to all of them.
  std::int64_t window = 0;
  bool alibi = false;    // only if IsAttention: the scores have a linear bias (kernels/attention_form.h)
  bool softcap = false;  // only if TakesSoftCap: scores or logits x become c tanh(x / c) first
  // Only if UsesGradients: the type of gradients of parameters, if it is not GradientType(dtype).
  std::optional<DType> gradients = {};
  // Only if UpdatesParameters. The type of moments; none: kSgd without momentum. The type of a copy of the
  // weights that is updated too; none: there is no copy.
  std::optional<DType> moments = {};
  std::optional<DType> master = {};
  Activation activation = Activation::kGelu;  // if HasActivation; otherwise the default
  CommGroup group = CommGroup::kNone;
  std::int32_t group_size = 1;
  std::array<std::int64_t, 5> dims{};

  auto operator<=>(const OpDesc&) const = default;  // NOLINT(modernize-use-nullptr): false positive
};

// A timed execution of an op.
struct OpTime {
  OpDesc op;
  double seconds = 0;
  // Seconds in which the host issues the op while the device runs earlier ones; 0 if it was not measured, or
  // the host runs the op itself.
  double host_s = 0;
};

std::string_view Name(OpKind kind);      // "matmul", "layer_norm_forward", ...
std::string_view Name(CommGroup group);  // "none", "tensor", "data", "pipeline", "embedding", "world"
// "none", "bias", "activation", "activation_gradient", "bias_gradient", "residual"
std::string_view Name(Epilogue epilogue);
std::optional<OpKind> ParseOpKind(std::string_view name);
std::optional<CommGroup> ParseCommGroup(std::string_view name);
std::optional<Epilogue> ParseEpilogue(std::string_view name);
// Returns a letter for each entry of `dims` that the kind uses, such as "mnk"; the others are 0.
std::string_view DimLetters(OpKind kind);
inline int DimCount(OpKind kind) { return static_cast<int>(DimLetters(kind).size()); }

// Returns true if the op has an activation: as an op of its own, or in a product's epilogue.
constexpr bool HasActivation(const OpDesc& op) {
  return op.kind == OpKind::kActivationForward || op.kind == OpKind::kActivationBackward ||
         op.epilogue == Epilogue::kActivation || op.epilogue == Epilogue::kActivationGradient;
}
// Returns true if the op is attention, fused or not.
constexpr bool IsAttention(OpKind kind) {
  return kind == OpKind::kAttentionForward || kind == OpKind::kAttentionBackward ||
         kind == OpKind::kUnfusedAttentionForward || kind == OpKind::kUnfusedAttentionBackward;
}
// Returns true if the op may cap what it takes the softmax of; OpDesc::softcap says whether it does.
constexpr bool TakesSoftCap(OpKind kind) {
  return IsAttention(kind) || kind == OpKind::kCrossEntropy || kind == OpKind::kCrossEntropyForward ||
         kind == OpKind::kCrossEntropyBackward;
}
// Returns true if the op may add a bias; OpDesc::bias says whether it does.
constexpr bool TakesBias(const OpDesc& op) {
  return op.kind == OpKind::kActivationForward || op.epilogue == Epilogue::kActivation ||
         op.epilogue == Epilogue::kResidual;
}
// Returns true if the op may add to its result: a product without an epilogue, and every op that computes
// gradients of parameters, which the backward of the first microbatch writes and later ones add to.
constexpr bool TakesAccumulate(const OpDesc& op) {
  switch (op.kind) {
    case OpKind::kMatmul: return op.epilogue == Epilogue::kNone || op.epilogue == Epilogue::kBiasGradient;
    case OpKind::kLayerNormBackward:
    case OpKind::kRmsNormBackward:
    case OpKind::kHeadNormBackward:
    case OpKind::kQkNormBackward:
    case OpKind::kEmbeddingBackward:
    case OpKind::kPositionBackward: return true;
    default: return false;
  }
}
// Returns true if the op updates parameters by their gradients.
constexpr bool UpdatesParameters(OpKind kind) { return kind == OpKind::kAdamW || kind == OpKind::kSgd; }
// Returns true if the op computes gradients of parameters, or updates parameters by them.
constexpr bool UsesGradients(const OpDesc& op) {
  if (op.kind == OpKind::kMatmul) return op.transpose_a;  // x^T dy
  return TakesAccumulate(op) || UpdatesParameters(op.kind);
}
// Returns the type of gradients of parameters of an op of this type, unless its descriptor names another: the
// type of statistics.
constexpr DType GradientType(DType type) { return type == DType::kF64 ? DType::kF64 : DType::kF32; }
CommPattern PatternOf(OpKind kind);  // kNone for compute
constexpr bool IsCommunication(OpKind kind) { return kind >= kFirstCommunication; }

// Returns a collective or message of `elements`, over a group of `group_size` ranks.
OpDesc CommunicationOp(OpKind kind, DType type, CommGroup group, std::int64_t group_size,
                       std::int64_t elements);

// Sets transpose_a, transpose_b and accumulate to the values that the epilogue requires; leaves unchanged
// what it allows to be either.
void SetEpilogue(OpDesc& op, Epilogue epilogue);

// Returns one line, e.g. "matmul fp32 nt acc 512x768x3072", "matmul fp32 nn activation gelu bias
// 512x3072x768", "matmul bf16 nn residual bias 512x768x768", "activation_forward fp32 swiglu 512x3072" or
// "all_reduce_sum fp32 tensor/4 65536".
std::string ToString(const OpDesc& op);

// Returns the floating-point operations of the op: 2mnk for a matrix product; for attention 4*B*N*S*S*D
// forward and 10*B*N*S*S*D backward (scores are computed again), 8*B*N*S*S*D if unfused, full rather than
// causal; fused attention with a window has as much less as its AttendedPairs are fewer; 0 for all other
// kinds. An epilogue adds none.
double Flops(const OpDesc& op);

// Returns the pairs of a query and a key that causal attention computes in a sequence of `seq_len` tokens:
// each token attends to the last `window` tokens up to itself, or to all of them if the window is 0.
double AttendedPairs(double seq_len, std::int64_t window);

// Returns the minimum number of bytes that the op reads and writes, with each tensor counted once, from its
// dims and element type.
double MinBytes(const OpDesc& op);

struct OpDescHash {
  std::size_t operator()(const OpDesc& op) const noexcept;
};

}  // namespace autocfg
