#include "search/cost/kinds_of_layers.h"

#include <algorithm>

namespace autocfg {

KindsOfLayers::KindsOfLayers(const ModelSpec& model, std::int64_t seq_len) {
  for (const LayerRun& run : RunsOf(model)) {
    const LayerKind kind = LayerKindOf(run, seq_len);
    const auto known = std::ranges::find(kinds_, kind);
    const auto number = static_cast<std::uint8_t>(known - kinds_.begin());
    if (known == kinds_.end()) kinds_.push_back(kind);
    numbers_.insert(numbers_.end(), static_cast<std::size_t>(run.layers), number);
  }
}

}  // namespace autocfg
