// Models whose kinds of layers repeat, for tests that choose the number of layers last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "search/plan/model_spec.h"

namespace autocfg::test {

// Sets the number of layers. The runs that the model has are those of its first layers, and repeat.
inline void SetLayers(ModelSpec& model, std::int64_t layers) {
  std::vector<LayerRun> cycle;
  for (LayerRun run : model.layer_kinds) {
    for (; run.layers > 0; --run.layers) cycle.push_back(run);
  }
  model.layers = layers;
  model.layer_kinds.clear();
  if (cycle.empty()) return;
  ChangeKinds(model, [&](std::int64_t layer, LayerRun& kind) {
    kind = cycle[static_cast<std::size_t>(layer) % cycle.size()];
    kind.layers = 1;
  });
}

// Makes the chunks of layers divide sequences of `seq_len` tokens.
inline void FitChunks(ModelSpec& model, std::int64_t seq_len) {
  for (LayerRun& run : model.layer_kinds) run.chunk = std::gcd(run.chunk, run.chunk == 0 ? 0 : seq_len);
  NormalizeKinds(model);
}

}  // namespace autocfg::test
