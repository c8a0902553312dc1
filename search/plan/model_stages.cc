#include "search/plan/model_stages.h"

#include <numeric>

namespace autocfg {

LayerRange StageLayers(const ModelSpec& model, const ParallelPlan& plan, std::int64_t stage) {
  const std::int64_t count = StageLayerCount(model, plan, stage);
  if (plan.split != SplitMode::kExplicit) return {stage * count, count};
  const auto begin = plan.split_layers.begin();
  return {std::accumulate(begin, begin + stage, std::int64_t{0}), count};
}

std::int64_t RankLayers(const ModelSpec& model, const ParallelPlan& plan, std::int64_t pipeline_rank) {
  std::int64_t layers = 0;
  for (std::int64_t chunk = 0; chunk < plan.virtual_stages; ++chunk) {
    layers += StageLayerCount(model, plan, StageOf(plan, pipeline_rank, chunk));
  }
  return layers;
}

}  // namespace autocfg
