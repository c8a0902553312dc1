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

namespace {

template <typename Counts>
std::int64_t RegionBytes(const ParameterLists& parameters, std::int64_t layers, DType type,
                         const Counts& counts) {
  const std::int64_t element = SizeOf(type);
  const auto bytes_of = [&](const ParameterList& list) {
    std::int64_t bytes = 0;
    for (const RankParameter& p : list) bytes += counts(p) ? AlignedBytes(p.elements * element) : 0;
    return bytes;
  };
  return bytes_of(parameters.before_layers) + layers * bytes_of(parameters.layer) +
         bytes_of(parameters.after_layers);
}

}  // namespace

std::int64_t ParameterRegionBytes(const ParameterLists& parameters, std::int64_t layers, DType type) {
  return RegionBytes(parameters, layers, type, [](const RankParameter&) { return true; });
}

std::int64_t NormBytes(const ParameterLists& parameters, std::int64_t layers, DType type) {
  return RegionBytes(parameters, layers, type, [](const RankParameter& p) { return p.of_norm; });
}

}  // namespace autocfg
