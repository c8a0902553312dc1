#include "search/cost/memory/rank_parameters.h"

#include "search/ops/memory_sizes.h"
#include "search/shapes/parameter_shape.h"

namespace autocfg {
namespace {

using Kind = ParameterKind;

class ParameterLister {
 public:
  ParameterLister(const LocalDims& dims, const ModelSpec& model) : dims_(dims), model_(model) {}

  void Add(Kind kind) {
    const ParameterShape shape = ShapeOf(kind, model_, dims_);
    list.Add({.elements = LocalElements(shape), .replicated = shape.sharding == Sharding::kReplicated});
  }
  void AddNorm(Kind weight, Kind bias) {
    Add(weight);
    if (HasBias(model_.norm)) Add(bias);
  }
  void AddLinear(Kind weight, Kind bias) {
    Add(weight);
    if (model_.bias) Add(bias);
  }

  ParameterList list;

 private:
  const LocalDims& dims_;
  const ModelSpec& model_;
};

std::int64_t RegionBytes(const ParameterList& list, std::int64_t element) {
  std::int64_t bytes = 0;
  for (const RankParameter& p : list) bytes += AlignedBytes(p.elements * element);
  return bytes;
}

}  // namespace

ParameterList ParametersBeforeLayers(const LocalDims& dims, const ModelSpec& model, RankPlace place) {
  ParameterLister l(dims, model);
  if (place.first || (place.last && model.tied_embeddings)) l.Add(Kind::kTokenEmbedding);
  if (place.first && model.position == Position::kLearned) l.Add(Kind::kPositionEmbedding);
  return l.list;
}

ParameterList LayerParameters(const LocalDims& dims, const ModelSpec& model) {
  ParameterLister l(dims, model);
  l.AddNorm(Kind::kNorm1Weight, Kind::kNorm1Bias);
  l.AddLinear(Kind::kQkvWeight, Kind::kQkvBias);
  l.AddLinear(Kind::kAttentionOutWeight, Kind::kAttentionOutBias);
  l.AddNorm(Kind::kNorm2Weight, Kind::kNorm2Bias);
  l.AddLinear(Kind::kFcWeight, Kind::kFcBias);
  l.AddLinear(Kind::kProjWeight, Kind::kProjBias);
  return l.list;
}

ParameterList ParametersAfterLayers(const LocalDims& dims, const ModelSpec& model, RankPlace place) {
  ParameterLister l(dims, model);
  if (!place.last) return l.list;
  l.AddNorm(Kind::kFinalNormWeight, Kind::kFinalNormBias);
  if (!model.tied_embeddings) l.Add(Kind::kOutputLayer);
  return l.list;
}

ParameterLists ParametersOf(const LocalDims& dims, const ModelSpec& model, RankPlace place) {
  return {.before_layers = ParametersBeforeLayers(dims, model, place),
          .layer = LayerParameters(dims, model),
          .after_layers = ParametersAfterLayers(dims, model, place)};
}

std::int64_t ParameterRegionBytes(const ParameterLists& parameters, std::int64_t layers, DType type) {
  const std::int64_t element = SizeOf(type);
  return RegionBytes(parameters.before_layers, element) + layers * RegionBytes(parameters.layer, element) +
         RegionBytes(parameters.after_layers, element);
}

}  // namespace autocfg
