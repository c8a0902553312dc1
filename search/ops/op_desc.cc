#include "search/ops/op_desc.h"

#include <algorithm>

#include "fmt/format.h"

namespace autocfg {
namespace {

struct KindFacts {
  std::string_view name;
  std::string_view dims;  // DimLetters
  CommPattern pattern = CommPattern::kNone;
};

KindFacts FactsOf(OpKind kind) {
  switch (kind) {
    case OpKind::kMatmul: return {"matmul", "mnk"};
    case OpKind::kLayerNormForward: return {"layer_norm_forward", "TH"};
    case OpKind::kLayerNormBackward: return {"layer_norm_backward", "TH"};
    case OpKind::kRmsNormForward: return {"rms_norm_forward", "TH"};
    case OpKind::kRmsNormBackward: return {"rms_norm_backward", "TH"};
    case OpKind::kBiasResidual: return {"bias_residual", "TH"};
    case OpKind::kResidualAdd: return {"residual_add", "TH"};
    case OpKind::kScale: return {"scale", "TH"};
    case OpKind::kCopyColumns: return {"copy_columns", "TH"};
    case OpKind::kActivationForward: return {"activation_forward", "TF"};
    case OpKind::kActivationBackward: return {"activation_backward", "TF"};
    case OpKind::kHeadNormForward: return {"head_norm_forward", "TNDG"};
    case OpKind::kHeadNormBackward: return {"head_norm_backward", "TNDG"};
    case OpKind::kQkSquares: return {"qk_squares", "TNDG"};
    case OpKind::kQkNormForward: return {"qk_norm_forward", "TNDG"};
    case OpKind::kQkProducts: return {"qk_products", "TNDG"};
    case OpKind::kQkNormBackward: return {"qk_norm_backward", "TNDG"};
    case OpKind::kRope: return {"rope", "TRDr"};
    case OpKind::kAttentionForward: return {"attention_forward", "BSNDG"};
    case OpKind::kAttentionBackward: return {"attention_backward", "BSNDG"};
    case OpKind::kUnfusedAttentionForward: return {"unfused_attention_forward", "BSNDG"};
    case OpKind::kUnfusedAttentionBackward: return {"unfused_attention_backward", "BSNDG"};
    case OpKind::kEmbeddingForward: return {"embedding_forward", "THV"};
    case OpKind::kEmbeddingBackward: return {"embedding_backward", "THV"};
    case OpKind::kPositionForward: return {"position_forward", "TH"};
    case OpKind::kPositionBackward: return {"position_backward", "TH"};
    case OpKind::kCrossEntropy: return {"cross_entropy", "TV"};
    case OpKind::kCrossEntropyForward: return {"cross_entropy_forward", "TV"};
    case OpKind::kCrossEntropyRescale: return {"cross_entropy_rescale", "T"};
    case OpKind::kCrossEntropyLoss: return {"cross_entropy_loss", "T"};
    case OpKind::kCrossEntropyBackward: return {"cross_entropy_backward", "TV"};
    case OpKind::kFill: return {"fill", "n"};
    case OpKind::kSumOfSquares: return {"sum_of_squares", "n"};
    case OpKind::kAdamW: return {"adamw", "n"};
    case OpKind::kSgd: return {"sgd", "n"};
    case OpKind::kAllReduceSum: return {"all_reduce_sum", "n", CommPattern::kAllReduce};
    case OpKind::kAllReduceMax: return {"all_reduce_max", "n", CommPattern::kAllReduce};
    case OpKind::kSend: return {"send", "n", CommPattern::kMessage};
    case OpKind::kRecv: return {"recv", "n", CommPattern::kMessage};
    case OpKind::kReduceScatter: return {"reduce_scatter", "n", CommPattern::kReduceScatter};
    case OpKind::kAllGather: return {"all_gather", "n", CommPattern::kAllGather};
  }
  return {};
}

constexpr std::array<std::string_view, kCommGroupCount> kGroups = {
    "none", "tensor", "data", "pipeline", "embedding", "world", "shard", "replica", "kv_replica"};

// Returns the elements that a product's epilogue reads and writes in addition to the product's own. The
// product's result has m rows and n columns.
double EpilogueElements(const OpDesc& op, double m, double n) {
  switch (op.epilogue) {
    case Epilogue::kNone: return 0;
    case Epilogue::kBias: return n;
    case Epilogue::kActivation: return m * n + (op.bias ? n : 0);      // writes both pre and y
    case Epilogue::kActivationGradient: return m * n;                  // reads pre
    case Epilogue::kBiasGradient: return (op.accumulate ? 2 : 1) * n;  // dy is an operand of the product
    case Epilogue::kResidual: return m * n + (op.bias ? n : 0);        // reads residual
  }
  return 0;
}

struct Work {
  double elements = 0;  // read, plus those written, with each tensor counted once; ids count as elements too
  double flops = 0;     // of all pairs of a query and a key, if the op is attention
};

Work WorkOf(const OpDesc& op) {
  const double a = static_cast<double>(op.dims[0]);
  const double b = static_cast<double>(op.dims[1]);
  const double c = static_cast<double>(op.dims[2]);
  const double d = static_cast<double>(op.dims[3]);
  const double g = static_cast<double>(op.dims[4]);
  const double wide = IsGated(op.activation) ? 2 : 1;  // an activation's input width over its result's
  const double sum = op.accumulate ? 2 : 1;            // accesses to each element of a gradient
  const double pairs = a * c * b * b * d;              // attention: each with D elements of every head
  switch (op.kind) {
    case OpKind::kMatmul: return {a * c + c * b + sum * a * b + EpilogueElements(op, a, b), 2 * a * b * c};
    case OpKind::kLayerNormForward:
      return {2 * a * b + 2 * b + 2 * a};  // x, y; weight, bias; mean, rstd
    // dy, x, dx; weight, two gradients; mean, rstd.
    case OpKind::kLayerNormBackward: return {3 * a * b + (1 + 2 * sum) * b + 2 * a};
    case OpKind::kBiasResidual: return {3 * a * b + b};
    case OpKind::kRmsNormForward:
      return {2 * a * b + b + a};  // x, y; weight; rstd
    // dy, x, dx; weight, one gradient; rstd.
    case OpKind::kRmsNormBackward: return {3 * a * b + (1 + sum) * b + a};
    case OpKind::kResidualAdd: return {3 * a * b};
    case OpKind::kScale:
    case OpKind::kCopyColumns: return {2 * a * b};
    // A bias also writes x.
    case OpKind::kActivationForward: return {(wide + 1) * a * b + (op.bias ? wide * (a * b + b) : 0)};
    // x, dy; dx.
    case OpKind::kActivationBackward: return {(2 * wide + 1) * a * b};
    // q and k, read and written, and kept; two weights; rstd.
    case OpKind::kHeadNormForward: return {3 * a * (b + d) * c + 2 * c + a * (b + d)};
    // Their gradients, read and written, and q and k; two weights, two gradients; rstd.
    case OpKind::kHeadNormBackward: return {3 * a * (b + d) * c + (2 + 2 * sum) * c + a * (b + d)};
    case OpKind::kQkSquares: return {a * (b + d) * c + 2 * a};
    // q and k, read and written, and kept; weights; sums in, rstd out.
    case OpKind::kQkNormForward: return {(3 * a + 1) * (b + d) * c + 4 * a};
    // The gradient, q and k; weights; rstd, sums.
    case OpKind::kQkProducts: return {(2 * a + 1) * (b + d) * c + 4 * a};
    // The gradient, read and written, q and k; weights and their gradients; rstd, sums.
    case OpKind::kQkNormBackward: return {(3 * a + 1 + sum) * (b + d) * c + 4 * a};
    case OpKind::kRope: return {2 * a * b * d};
    case OpKind::kAttentionForward:
      return {2 * a * b * (c + g) * d + a * b * c, 4 * pairs};  // q, k, v, out; log-sum-exp
    case OpKind::kAttentionBackward:
      return {4 * a * b * (c + g) * d + a * b * c, 10 * pairs};  // q, k, v, out and their gradients
    // The scores are written by one product, read and written by the softmax, and read by the other product.
    case OpKind::kUnfusedAttentionForward: return {2 * a * b * (c + g) * d + 4 * a * c * b * b, 4 * pairs};
    // Two products read what the forward stored and write or read a gradient. The softmax converts one into
    // the other.
    case OpKind::kUnfusedAttentionBackward: return {4 * a * b * (c + g) * d + 7 * a * c * b * b, 8 * pairs};
    case OpKind::kEmbeddingForward: return {2 * a * b + a};
    // Rows of the gradient, read and written, or the whole gradient, written.
    case OpKind::kEmbeddingBackward: return {(op.accumulate ? 3 * a * b : a * b + c * b) + a};
    case OpKind::kPositionForward: return {2 * a * b};
    case OpKind::kPositionBackward: return {a * b};
    case OpKind::kCrossEntropy: return {2 * a * b + a};         // logits in and out; target
    case OpKind::kCrossEntropyForward: return {a * b + 4 * a};  // logits; target, max, two sums
    case OpKind::kCrossEntropyRescale: return {3 * a};
    case OpKind::kCrossEntropyLoss: return {4 * a};
    case OpKind::kCrossEntropyBackward: return {2 * a * b + 3 * a};
    case OpKind::kFill:
    case OpKind::kSumOfSquares:
    case OpKind::kAdamW:  // MinBytes knows the types of updates
    case OpKind::kSgd: return {a};
    case OpKind::kAllReduceSum:
    case OpKind::kAllReduceMax: return {2 * a};
    case OpKind::kSend:
    case OpKind::kRecv:
    case OpKind::kReduceScatter:
    case OpKind::kAllGather: return {a};
  }
  return {};
}

}  // namespace

std::string_view Name(OpKind kind) { return FactsOf(kind).name; }

std::string_view Name(CommGroup group) { return kGroups[static_cast<std::size_t>(group)]; }

std::string_view Name(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone: return "none";
    case Epilogue::kBias: return "bias";
    case Epilogue::kActivation: return "activation";
    case Epilogue::kActivationGradient: return "activation_gradient";
    case Epilogue::kBiasGradient: return "bias_gradient";
    case Epilogue::kResidual: return "residual";
  }
  return "";
}

std::optional<OpKind> ParseOpKind(std::string_view name) {
  for (int i = 0; i < kOpKindCount; ++i) {
    const OpKind kind = static_cast<OpKind>(i);
    if (Name(kind) == name) return kind;
  }
  return std::nullopt;
}

std::optional<CommGroup> ParseCommGroup(std::string_view name) {
  for (std::size_t i = 0; i < kGroups.size(); ++i) {
    if (kGroups[i] == name) return static_cast<CommGroup>(i);
  }
  return std::nullopt;
}

std::optional<Epilogue> ParseEpilogue(std::string_view name) {
  for (int i = 0; i < kEpilogueCount; ++i) {
    const Epilogue epilogue = static_cast<Epilogue>(i);
    if (Name(epilogue) == name) return epilogue;
  }
  return std::nullopt;
}

void SetEpilogue(OpDesc& op, Epilogue epilogue) {
  op.epilogue = epilogue;
  const auto set_form = [&op](bool transpose_a, bool transpose_b) {
    op.transpose_a = transpose_a;
    op.transpose_b = transpose_b;
    if (!TakesAccumulate(op)) op.accumulate = false;
  };
  switch (epilogue) {
    case Epilogue::kNone: return;
    case Epilogue::kBias:
    case Epilogue::kActivation:
    case Epilogue::kResidual: return set_form(false, false);
    case Epilogue::kActivationGradient: return set_form(false, true);
    case Epilogue::kBiasGradient: return set_form(true, false);
  }
}

std::string_view DimLetters(OpKind kind) { return FactsOf(kind).dims; }

CommPattern PatternOf(OpKind kind) { return FactsOf(kind).pattern; }

std::string ToString(const OpDesc& op) {
  // Names every field, so that a new one does not compile until the text has it.
  const auto& [kind, dtype, transpose_a, transpose_b, accumulate, epilogue, bias, window, alibi, softcap,
               gradients, moments, master, activation, group, group_size, dims] = op;
  std::string text = fmt::format("{} {}", Name(kind), Name(dtype));
  if (kind == OpKind::kMatmul) text += fmt::format(" {}{}", transpose_a ? 't' : 'n', transpose_b ? 't' : 'n');
  if (accumulate) text += " acc";
  if (epilogue != Epilogue::kNone) text += fmt::format(" {}", Name(epilogue));
  if (HasActivation(op)) text += fmt::format(" {}", Name(activation));
  if (bias) text += " bias";
  if (window != 0) text += fmt::format(" window={}", window);
  if (alibi) text += " alibi";
  if (softcap) text += " softcap";
  if (gradients) text += fmt::format(" grads={}", Name(*gradients));
  if (moments && (kind == OpKind::kSgd || moments != GradientType(dtype)))
    text += fmt::format(" moments={}", Name(*moments));
  if (master) text += master == DType::kF32 ? " master" : fmt::format(" master={}", Name(*master));
  if (group != CommGroup::kNone) text += fmt::format(" {}/{}", Name(group), group_size);
  for (int i = 0; i < DimCount(kind); ++i) {
    text += fmt::format("{}{}", i == 0 ? ' ' : 'x', dims[static_cast<std::size_t>(i)]);
  }
  return text;
}

double Flops(const OpDesc& op) {
  const double flops = WorkOf(op).flops;
  // Unfused attention counts with all scores, which it stores.
  if (op.window == 0 || (op.kind != OpKind::kAttentionForward && op.kind != OpKind::kAttentionBackward))
    return flops;
  const auto seq_len = static_cast<double>(op.dims[1]);
  return flops * AttendedPairs(seq_len, op.window) / AttendedPairs(seq_len, 0);
}

double AttendedPairs(double seq_len, std::int64_t window) {
  const double width = window == 0 ? seq_len : std::min(seq_len, static_cast<double>(window));
  return width * seq_len - width * (width - 1) / 2;
}

double MinBytes(const OpDesc& op) {
  if (UpdatesParameters(op.kind)) {
    // Reads the gradient. Reads and writes moments, and the master copy or else the weight. Writes a weight
    // that has a copy.
    const std::int64_t moments = op.kind == OpKind::kAdamW ? 2 : 1;
    std::int64_t bytes = SizeOf(op.gradients.value_or(GradientType(op.dtype)));
    if (op.moments) bytes += 2 * moments * SizeOf(*op.moments);
    bytes += op.master ? 2 * SizeOf(*op.master) + SizeOf(op.dtype) : 2 * SizeOf(op.dtype);
    return static_cast<double>(op.dims[0] * bytes);
  }
  return WorkOf(op).elements * static_cast<double>(SizeOf(op.dtype));
}

std::size_t OpDescHash::operator()(const OpDesc& op) const noexcept {
  // Names every field, so that a new one does not compile until the hash has it.
  const auto& [kind, dtype, transpose_a, transpose_b, accumulate, epilogue, bias, window, alibi, softcap,
               gradients, moments, master, activation, group, group_size, dims] = op;
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  const auto mix = [&hash](std::uint64_t value) {
    hash ^= value;
    hash *= 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  };
  mix(static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(dtype) << 8 |
      static_cast<std::uint64_t>(epilogue) << 12 | static_cast<std::uint64_t>(transpose_a) << 16 |
      static_cast<std::uint64_t>(transpose_b) << 17 | static_cast<std::uint64_t>(accumulate) << 18 |
      static_cast<std::uint64_t>(bias) << 19 | static_cast<std::uint64_t>(activation) << 21 |
      static_cast<std::uint64_t>(group) << 24 | static_cast<std::uint64_t>(alibi) << 28 |
      static_cast<std::uint64_t>(softcap) << 29 |
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(group_size)) << 32);
  for (std::int64_t dim : dims) mix(static_cast<std::uint64_t>(dim));
  const auto code = [](std::optional<DType> type) {
    return type ? static_cast<std::uint64_t>(*type) + 1 : std::uint64_t{0};
  };
  mix(static_cast<std::uint64_t>(window) << 12 | code(gradients) << 8 | code(moments) << 4 | code(master));
  return static_cast<std::size_t>(hash);
}

OpDesc CommunicationOp(OpKind kind, DType type, CommGroup group, std::int64_t group_size,
                       std::int64_t elements) {
  OpDesc op{.kind = kind, .dtype = type, .dims = {elements}};
  op.group = group;
  op.group_size = static_cast<std::int32_t>(group_size);
  return op;
}

}  // namespace autocfg
