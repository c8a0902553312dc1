#include "search/shapes/parameter_shape.h"

#include <stdexcept>

namespace autocfg {
namespace {

ParameterShape Replicated(const ParameterDims& dims) {
  return {.global = dims, .local = dims, .parts = {}, .sharding = Sharding::kReplicated};
}

ParameterShape Rows(std::int64_t global_rows, std::int64_t local_rows, std::int64_t columns) {
  return {.global = {global_rows, columns},
          .local = {local_rows, columns},
          .parts = {},
          .sharding = Sharding::kRows};
}

ParameterShape QkvShape(const ModelSpec& model, const LocalDims& d, bool is_weight) {
  const std::int64_t q = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim;
  const std::int64_t all = q + 2 * kv;
  return {.global = is_weight ? ParameterDims{d.hidden, all} : ParameterDims{all},
          .local = is_weight ? ParameterDims{d.hidden, d.qkv} : ParameterDims{d.qkv},
          .parts = {q, kv, kv},
          .sharding = Sharding::kColumns};
}

ParameterShape FcShape(const ModelSpec& model, const LocalDims& d, bool is_weight) {
  const std::int64_t ffn = model.ffn_hidden;
  const bool gated = IsGated(model.activation);
  const std::int64_t all = gated ? 2 * ffn : ffn;
  return {.global = is_weight ? ParameterDims{d.hidden, all} : ParameterDims{all},
          .local = is_weight ? ParameterDims{d.hidden, d.fc} : ParameterDims{d.fc},
          .parts = gated ? ParameterDims{ffn, ffn} : ParameterDims{ffn},
          .sharding = Sharding::kColumns};
}

}  // namespace

ParameterShape ShapeOf(ParameterKind kind, const ModelSpec& model, const LocalDims& d) {
  switch (kind) {
    case ParameterKind::kTokenEmbedding:
    case ParameterKind::kOutputLayer: return Rows(model.vocab, d.vocab, d.hidden);
    case ParameterKind::kPositionEmbedding: return Replicated({model.max_seq_len, d.hidden});
    case ParameterKind::kNorm1Weight:
    case ParameterKind::kNorm1Bias:
    case ParameterKind::kNorm2Weight:
    case ParameterKind::kNorm2Bias:
    case ParameterKind::kFinalNormWeight:
    case ParameterKind::kFinalNormBias:
    case ParameterKind::kAttentionOutBias:
    case ParameterKind::kProjBias: return Replicated({d.hidden});
    case ParameterKind::kQkvWeight: return QkvShape(model, d, true);
    case ParameterKind::kQkvBias: return QkvShape(model, d, false);
    case ParameterKind::kAttentionOutWeight: return Rows(model.heads * model.head_dim, d.attention, d.hidden);
    case ParameterKind::kFcWeight: return FcShape(model, d, true);
    case ParameterKind::kFcBias: return FcShape(model, d, false);
    case ParameterKind::kProjWeight: return Rows(model.ffn_hidden, d.ffn, d.hidden);
  }
  throw std::logic_error("parameter shape: unknown kind");
}

}  // namespace autocfg
