#include "search/plan/engine_stages/weighted_stages.h"

#include <algorithm>
#include <cstddef>

namespace autocfg {

std::vector<std::int64_t> StagesByWeight(const ModelSpec& model, std::int64_t stages) {
  const auto hidden = static_cast<double>(model.hidden);
  const double attention = 4 * static_cast<double>(model.heads * model.head_dim) * hidden,
               layer = attention + 3 * static_cast<double>(model.ffn_hidden) * hidden,
               all = layer * static_cast<double>(model.layers) + static_cast<double>(model.vocab) * hidden;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(std::max<std::int64_t>(stages, 1)), 0);
  std::size_t stage = 0;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    ++layers[stage];
    const double part = static_cast<double>(stage + 1) / static_cast<double>(layers.size());
    if (layer * static_cast<double>(i + 1) >= all * part && stage + 1 < layers.size()) ++stage;
  }
  return layers;
}

std::vector<std::int64_t> WithALayerEach(std::vector<std::int64_t> layers) {
  for (auto empty = layers.rbegin(); empty != layers.rend(); ++empty) {
    if (*empty > 0) continue;
    const auto from = std::find_if(empty, layers.rend(), [](std::int64_t count) { return count > 1; });
    if (from == layers.rend()) break;
    --*from;
    ++*empty;
  }
  return layers;
}

}  // namespace autocfg
