#include "search/plan/model_stages.h"

#include <numeric>

namespace autocfg {

LayerRange StageLayers(const ModelSpec& model, const ParallelPlan& plan, std::int64_t stage) {
  if (plan.split == SplitMode::kExplicit) {
    const auto begin = plan.split_layers.begin();
    return {std::accumulate(begin, begin + stage, std::int64_t{0}),
            plan.split_layers[static_cast<std::size_t>(stage)]};
  }
  const std::int64_t count = model.layers / (plan.pp * plan.virtual_stages);
  return {stage * count, count};
}

std::int64_t RankLayers(const ModelSpec& model, const ParallelPlan& plan, std::int64_t pipeline_rank) {
  std::int64_t layers = 0;
  for (std::int64_t chunk = 0; chunk < plan.virtual_stages; ++chunk) {
    layers += StageLayers(model, plan, StageOf(plan, pipeline_rank, chunk)).count;
  }
  return layers;
}

}  // namespace autocfg
