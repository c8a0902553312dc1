// The predictor's list of the parameters of a pipeline rank. The trainer lists them for itself
// (trainer/layout/parameters.h), and tests compare the two. Pure, thread-safe. Requires a legal plan that
// CheckPredictable accepts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "search/ops/dtype.h"
#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"
#include "search/shapes/local_dims.h"
#include "search/shapes/parameter_shape.h"

namespace autocfg {

// One parameter: its elements on a rank, whether all ranks of the tensor group hold the same values, and
// whether it is one of a norm.
struct RankParameter {
  std::int64_t elements = 0;
  bool replicated = false;
  bool of_norm = false;
};

// A few parameters in order, without heap allocation.
class ParameterList {
 public:
  void Add(const RankParameter& parameter) { parameters_[count_++] = parameter; }
  const RankParameter* begin() const { return parameters_.data(); }
  const RankParameter* end() const { return parameters_.data() + count_; }
  std::size_t size() const { return count_; }

 private:
  std::array<RankParameter, 12> parameters_{};
  std::size_t count_ = 0;
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
  }
  void Layer() const {
    using enum ParameterKind;
    Norm<kNorm1Weight, kNorm1Bias>();
    Linear<kQkvWeight, kQkvBias>();
    Linear<kAttentionOutWeight, kAttentionOutBias>();
    Norm<kNorm2Weight, kNorm2Bias>();
    Linear<kFcWeight, kFcBias>();
    Linear<kProjWeight, kProjBias>();
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
    visit_(RankParameter{.elements = LocalElements(shape),
                         .replicated = shape.sharding == Sharding::kReplicated,
                         .of_norm = IsOfNorm(kind)});
  }
  template <ParameterKind weight, ParameterKind bias>
  void Norm() const {
    One<weight>();
    if (HasBias(model_.norm)) One<bias>();
  }
  template <ParameterKind weight, ParameterKind bias>
  void Linear() const {
    One<weight>();
    if (model_.bias) One<bias>();
  }

  const LocalDims& dims_;
  const ModelSpec& model_;
  const Visit& visit_;
};

// A rank's parameters in the order of ParameterVisitor.
struct ParameterLists {
  ParameterList before_layers;
  ParameterList layer;  // of each layer
  ParameterList after_layers;
};
ParameterLists ParametersOf(const LocalDims& dims, const ModelSpec& model, RankPlace place);

// Returns the bytes of the region with one tensor of `type` for each parameter of a rank that has `layers`
// layers in total.
std::int64_t ParameterRegionBytes(const ParameterLists& parameters, std::int64_t layers, DType type);

// Returns the bytes of those tensors of that region that belong to norms.
std::int64_t NormBytes(const ParameterLists& parameters, std::int64_t layers, DType type);

}  // namespace autocfg
