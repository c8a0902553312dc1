// The predictor's list of the parameters of a pipeline rank. The trainer lists them for itself
// (trainer/layout/parameters.h), and tests compare the two. Pure, thread-safe. Requires a legal plan that
// CheckPredictable accepts.
#pragma once

#include <cstdint>

#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"
#include "search/shapes/local_dims.h"
#include "search/shapes/parameter_shape.h"

namespace autocfg {

// One parameter: its elements on a rank, whether all ranks of the tensor group hold the same values, and
// whether it is one of a norm.
struct RankParameter {
  ParameterKind kind = ParameterKind::kTokenEmbedding;
  std::int64_t elements = 0;
  bool replicated = false;
  std::int64_t replicas = 1;  // unless replicated: neighbours in the tensor group with the same values
  bool of_norm = false;
};

// Calls visit(RankParameter) for each parameter of a rank, in the order of docs/engine.md: those before its
// layers, those of one layer, those after its layers. With several ranks, the last rank's copy of a tied
// table comes first of all. Templates, so that a sum over parameters makes no list.
template <typename Visit>
class ParameterVisitor {
 public:
  ParameterVisitor(const LocalDims& dims, const ModelSpec& model, const Visit& visit)
      : dims_(dims), model_(model), visit_(visit) {}

  void BeforeLayers(RankPlace place) const {
    if (place.first || (place.last && model_.tied_embeddings)) One<ParameterKind::kTokenEmbedding>();
    if (place.first && model_.position == Position::kLearned) One<ParameterKind::kPositionEmbedding>();
    if (place.first && model_.embedding_norm)
      Norm<ParameterKind::kEmbeddingNormWeight, ParameterKind::kEmbeddingNormBias>();
  }
  void Layer() const {
    using enum ParameterKind;
    Norm<kNorm1Weight, kNorm1Bias>();
    if (dims_.kv_replicas > 1) {
      Linear<kKeyValueWeight, kKeyValueBias>(model_.qkv_bias);
      Linear<kQueryWeight, kQueryBias>(model_.qkv_bias);
    } else {
      Linear<kQkvWeight, kQkvBias>(model_.qkv_bias);
    }
    if (model_.qk_norm != QkNorm::kNone) {
      One<kQueryNormWeight>();
      One<kKeyNormWeight>();
    }
    Linear<kAttentionOutWeight, kAttentionOutBias>(model_.attention_out_bias);
    if (!model_.shared_norm) Norm<kNorm2Weight, kNorm2Bias>();
    if (model_.norm_placement == NormPlacement::kSandwich) {
      Norm<kPostNorm1Weight, kPostNorm1Bias>();
      Norm<kPostNorm2Weight, kPostNorm2Bias>();
    }
    Linear<kFcWeight, kFcBias>(model_.mlp_bias);
    Linear<kProjWeight, kProjBias>(model_.mlp_bias);
  }
  void AfterLayers(RankPlace place) const {
    if (!place.last) return;
    Norm<ParameterKind::kFinalNormWeight, ParameterKind::kFinalNormBias>();
    if (!model_.tied_embeddings) One<ParameterKind::kOutputLayer>();
  }

 private:
  template <ParameterKind kind>
  void One() const {
    const ParameterShape shape = ShapeOf(kind, model_, dims_);
    visit_(RankParameter{.kind = kind,
                         .elements = LocalElements(shape),
                         .replicated = shape.sharding == Sharding::kReplicated,
                         .replicas = shape.replicas,
                         .of_norm = IsOfNorm(kind)});
  }
  template <ParameterKind weight, ParameterKind bias>
  void Norm() const {
    One<weight>();
    if (HasBias(model_.norm)) One<bias>();
  }
  template <ParameterKind weight, ParameterKind bias>
  void Linear(bool has_bias) const {
    One<weight>();
    if (has_bias) One<bias>();
  }

  const LocalDims& dims_;
  const ModelSpec& model_;
  const Visit& visit_;
};

}  // namespace autocfg
