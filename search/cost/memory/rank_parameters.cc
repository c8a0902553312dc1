#include "search/cost/memory/rank_parameters.h"

#include "search/ops/memory_sizes.h"

namespace autocfg {

ParameterLists ParametersOf(const LocalDims& dims, const ModelSpec& model, RankPlace place) {
  ParameterLists lists;
  ParameterList* list = &lists.before_layers;
  const auto add = [&](const RankParameter& parameter) { list->Add(parameter); };
  const ParameterVisitor visitor(dims, model, add);
  visitor.BeforeLayers(place);
  list = &lists.layer;
  visitor.Layer();
  list = &lists.after_layers;
  visitor.AfterLayers(place);
  return lists;
}

std::int64_t ParameterRegionBytes(const ParameterLists& parameters, std::int64_t layers, DType type) {
  const std::int64_t element = SizeOf(type);
  const auto bytes_of = [&](const ParameterList& list) {
    std::int64_t bytes = 0;
    for (const RankParameter& p : list) bytes += AlignedBytes(p.elements * element);
    return bytes;
  };
  return bytes_of(parameters.before_layers) + layers * bytes_of(parameters.layer) +
         bytes_of(parameters.after_layers);
}

}  // namespace autocfg
