// The shape of each parameter and how the tensor group splits it. Predictor and trainer both take shapes from
// here. Which parameters a rank has, and in which order, each lists for itself. Pure functions, thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "search/plan/model_spec.h"
#include "search/shapes/local_dims.h"

namespace autocfg {

// The role of a parameter. docs/engine.md says which of them a model has.
enum class ParameterKind : std::uint8_t {
  kTokenEmbedding,     // wte
  kPositionEmbedding,  // wpe
  kEmbeddingNormWeight,
  kEmbeddingNormBias,
  kNorm1Weight,  // first parameter of each layer
  kNorm1Bias,
  kKeyValueWeight,  // of attn.c_attn, where ranks share key-value heads: k and v, and then q
  kKeyValueBias,
  kQueryWeight,
  kQueryBias,
  kQkvWeight,  // else attn.c_attn whole: all q, then all k, then all v
  kQkvBias,
  kQueryNormWeight,  // attn.q_norm and attn.k_norm: of qk_norm
  kKeyNormWeight,
  kAttentionOutWeight,  // attn.c_proj
  kAttentionOutBias,
  kNorm2Weight,
  kNorm2Bias,
  kPostNorm1Weight,  // of norm_placement sandwich: on the output of attention and of feed-forward
  kPostNorm1Bias,
  kPostNorm2Weight,
  kPostNorm2Bias,
  kFcWeight,  // mlp.c_fc; gated: all gates, then all ups
  kFcBias,
  kProjWeight,  // mlp.c_proj
  kProjBias,    // last parameter of each layer
  kFinalNormWeight,
  kFinalNormBias,
  kOutputLayer,  // lm_head, if it is not tied to wte
};
inline constexpr int kParameterKindCount = static_cast<int>(ParameterKind::kOutputLayer) + 1;

// Returns whether the parameter is one of a norm. Under sequence parallelism a rank computes the gradients of
// norms from its own tokens alone, so that they are summed over the tensor group. The gradients of the other
// replicated parameters come from all tokens on every rank.
constexpr bool IsOfNorm(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::kEmbeddingNormWeight:
    case ParameterKind::kEmbeddingNormBias:
    case ParameterKind::kPostNorm1Weight:
    case ParameterKind::kPostNorm1Bias:
    case ParameterKind::kPostNorm2Weight:
    case ParameterKind::kPostNorm2Bias:
    case ParameterKind::kNorm1Weight:
    case ParameterKind::kNorm1Bias:
    case ParameterKind::kNorm2Weight:
    case ParameterKind::kNorm2Bias:
    case ParameterKind::kFinalNormWeight:
    case ParameterKind::kFinalNormBias:
    case ParameterKind::kQueryNormWeight:
    case ParameterKind::kKeyNormWeight: return true;
    case ParameterKind::kTokenEmbedding:
    case ParameterKind::kPositionEmbedding:
    case ParameterKind::kKeyValueWeight:
    case ParameterKind::kKeyValueBias:
    case ParameterKind::kQueryWeight:
    case ParameterKind::kQueryBias:
    case ParameterKind::kQkvWeight:
    case ParameterKind::kQkvBias:
    case ParameterKind::kAttentionOutWeight:
    case ParameterKind::kAttentionOutBias:
    case ParameterKind::kFcWeight:
    case ParameterKind::kFcBias:
    case ParameterKind::kProjWeight:
    case ParameterKind::kProjBias:
    case ParameterKind::kOutputLayer: return false;
  }
  return false;
}

// Returns whether a rank computes the gradient of the parameter, which all ranks of its tensor group hold
// alike, from its own heads alone: then it is summed over the tensor group, whether or not sequences are
// split.
constexpr bool IsOfOwnHeads(ParameterKind kind) {
  return kind == ParameterKind::kQueryNormWeight || kind == ParameterKind::kKeyNormWeight;
}

// Returns whether the parameter is of the key-value heads that ranks share. A rank computes its gradient from
// its own queries, so that it is summed over those ranks.
constexpr bool IsOfSharedHeads(ParameterKind kind) {
  return kind == ParameterKind::kKeyValueWeight || kind == ParameterKind::kKeyValueBias;
}

// How a parameter is split over the tensor group.
enum class Sharding : std::uint8_t {
  kReplicated,
  kRows,     // rows of a matrix (for embedding and output layer: of the padded vocabulary)
  kColumns,  // the last dim, each of its `parts` separately
};

// At most three sizes, without heap allocation: predictions make many.
class ParameterDims {
 public:
  constexpr ParameterDims() = default;
  constexpr ParameterDims(std::int64_t size)
      : sizes_{size, 1, 1}, count_(1) {}  // NOLINT(google-explicit-constructor): a vector
  constexpr ParameterDims(std::int64_t in, std::int64_t out) : sizes_{in, out, 1}, count_(2) {}
  constexpr ParameterDims(std::int64_t a, std::int64_t b, std::int64_t c) : sizes_{a, b, c}, count_(3) {}

  constexpr const std::int64_t* begin() const { return sizes_.data(); }
  constexpr const std::int64_t* end() const { return sizes_.data() + count_; }
  constexpr std::size_t size() const { return count_; }
  constexpr std::int64_t Elements() const { return sizes_[0] * sizes_[1] * sizes_[2]; }

  bool operator==(const ParameterDims&) const = default;

 private:
  std::array<std::int64_t, 3> sizes_{1, 1, 1};  // those from count_ on are 1
  std::size_t count_ = 0;
};

// A vector has one dim, a matrix two: [in, out], or [vocabulary, hidden] for the embedding and output layer.
struct ParameterShape {
  ParameterDims global;  // of the whole model, without vocabulary padding
  ParameterDims local;   // of a rank
  // kColumns: the widths, in the whole model, of the blocks of the last dim, from `first_column` on. c_attn:
  // q, k and v, or some of them; a gated c_fc: gates and ups; otherwise one block.
  ParameterDims parts = {};
  std::int64_t first_column = 0;
  Sharding sharding = Sharding::kReplicated;
  std::int64_t replicas = 1;  // neighbours in the tensor group that hold the same part; of kReplicated all do

  bool operator==(const ParameterShape&) const = default;
};

// Parts of ShapeOf.
namespace shapes {

constexpr ParameterShape ReplicatedShape(const ParameterDims& dims) {
  return {.global = dims, .local = dims, .parts = {}, .sharding = Sharding::kReplicated};
}

constexpr ParameterShape RowsShape(std::int64_t global_rows, std::int64_t local_rows, std::int64_t columns) {
  return {.global = {global_rows, columns},
          .local = {local_rows, columns},
          .parts = {},
          .sharding = Sharding::kRows};
}

// Shapes c_attn, or a parameter that has some of its blocks, of which a rank holds `local` columns.
constexpr ParameterShape QkvShape(const ModelSpec& model, const LocalDims& d, bool is_weight,
                                  std::int64_t local) {
  const std::int64_t all = (model.heads + 2 * model.kv_heads) * model.head_dim;
  return {.global = is_weight ? ParameterDims{d.hidden, all} : ParameterDims{all},
          .local = is_weight ? ParameterDims{d.hidden, local} : ParameterDims{local},
          .sharding = Sharding::kColumns};
}

constexpr ParameterShape WholeQkvShape(const ModelSpec& model, const LocalDims& d, bool is_weight) {
  ParameterShape shape = QkvShape(model, d, is_weight, d.qkv);
  const std::int64_t q = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim;
  shape.parts = {q, kv, kv};
  return shape;
}

constexpr ParameterShape QueryShape(const ModelSpec& model, const LocalDims& d, bool is_weight) {
  ParameterShape shape = QkvShape(model, d, is_weight, d.attention);
  shape.parts = {model.heads * model.head_dim};
  return shape;
}

constexpr ParameterShape KeyValueShape(const ModelSpec& model, const LocalDims& d, bool is_weight) {
  ParameterShape shape = QkvShape(model, d, is_weight, d.qkv - d.attention);
  const std::int64_t kv = model.kv_heads * model.head_dim;
  shape.parts = {kv, kv};
  shape.first_column = model.heads * model.head_dim;
  shape.replicas = d.kv_replicas;
  return shape;
}

// Of the norm of q or of k, which have these widths in the model and on a rank.
constexpr ParameterShape QkNormShape(const ModelSpec& model, std::int64_t global, std::int64_t local) {
  if (model.qk_norm != QkNorm::kFull) return ReplicatedShape({model.head_dim});
  return {.global = {global}, .local = {local}, .parts = {global}, .sharding = Sharding::kColumns};
}

constexpr ParameterShape FcShape(const ModelSpec& model, const LocalDims& d, bool is_weight) {
  const std::int64_t ffn = model.ffn_hidden;
  const bool gated = IsGated(model.activation);
  const std::int64_t all = gated ? 2 * ffn : ffn;
  return {.global = is_weight ? ParameterDims{d.hidden, all} : ParameterDims{all},
          .local = is_weight ? ParameterDims{d.hidden, d.fc} : ParameterDims{d.fc},
          .parts = gated ? ParameterDims{ffn, ffn} : ParameterDims{ffn},
          .sharding = Sharding::kColumns};
}

}  // namespace shapes

// Returns the shape of a parameter of `model` on a rank with these dims, whether or not the model has it.
// Inline, so that predictions, which make many, compute only what they use.
constexpr ParameterShape ShapeOf(ParameterKind kind, const ModelSpec& model, const LocalDims& d) {
  switch (kind) {
    case ParameterKind::kTokenEmbedding:
    case ParameterKind::kOutputLayer: return shapes::RowsShape(model.vocab, d.vocab, d.hidden);
    case ParameterKind::kPositionEmbedding: return shapes::ReplicatedShape({model.max_seq_len, d.hidden});
    case ParameterKind::kEmbeddingNormWeight:
    case ParameterKind::kEmbeddingNormBias:
    case ParameterKind::kPostNorm1Weight:
    case ParameterKind::kPostNorm1Bias:
    case ParameterKind::kPostNorm2Weight:
    case ParameterKind::kPostNorm2Bias:
    case ParameterKind::kNorm1Weight:
    case ParameterKind::kNorm1Bias:
    case ParameterKind::kNorm2Weight:
    case ParameterKind::kNorm2Bias:
    case ParameterKind::kFinalNormWeight:
    case ParameterKind::kFinalNormBias:
    case ParameterKind::kAttentionOutBias:
    case ParameterKind::kProjBias: return shapes::ReplicatedShape({d.hidden});
    case ParameterKind::kQueryNormWeight:
      return shapes::QkNormShape(model, model.heads * model.head_dim, d.attention);
    case ParameterKind::kKeyNormWeight:
      return shapes::QkNormShape(model, model.kv_heads * model.head_dim, d.kv_heads * d.head_dim);
    case ParameterKind::kKeyValueWeight: return shapes::KeyValueShape(model, d, true);
    case ParameterKind::kKeyValueBias: return shapes::KeyValueShape(model, d, false);
    case ParameterKind::kQueryWeight: return shapes::QueryShape(model, d, true);
    case ParameterKind::kQueryBias: return shapes::QueryShape(model, d, false);
    case ParameterKind::kQkvWeight: return shapes::WholeQkvShape(model, d, true);
    case ParameterKind::kQkvBias: return shapes::WholeQkvShape(model, d, false);
    case ParameterKind::kAttentionOutWeight:
      return shapes::RowsShape(model.heads * model.head_dim, d.attention, d.hidden);
    case ParameterKind::kFcWeight: return shapes::FcShape(model, d, true);
    case ParameterKind::kFcBias: return shapes::FcShape(model, d, false);
    case ParameterKind::kProjWeight: return shapes::RowsShape(model.ffn_hidden, d.ffn, d.hidden);
  }
  throw std::logic_error("parameter shape: unknown kind");
}

// Returns the elements of the parameter on a rank.
constexpr std::int64_t LocalElements(const ParameterShape& shape) { return shape.local.Elements(); }

}  // namespace autocfg
