#include "search/cost/engine_stages.h"

#include <algorithm>

#include "search/plan/model_stages.h"

namespace autocfg {

std::vector<std::int64_t> StagesByWeight(const ModelSpec& model, const ParallelPlan& plan) {
  const std::int64_t stages = StageCount(plan);
  const std::int64_t attention = 4 * model.heads * model.head_dim * model.hidden,
                     feed_forward = 3 * model.ffn_hidden * model.hidden, layer = attention + feed_forward,
                     head = model.vocab * model.hidden, sum = model.layers * layer + head;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), 0);
  std::int64_t stage = 0;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    ++layers[static_cast<std::size_t>(stage)];
    // Without a layer left for each of the others, this stage has enough.
    const bool reached =
        static_cast<double>((i + 1) * layer) >=
        static_cast<double>(sum) * static_cast<double>(stage + 1) / static_cast<double>(stages);
    const bool needed = model.layers - (i + 1) <= stages - (stage + 1);
    if (stage + 1 < stages && (reached || needed)) ++stage;
  }
  return layers;
}

}  // namespace autocfg
