// The kinds of a model's layers by number, for costs that are sums over layers. Immutable, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/blocks/layer_kind.h"
#include "search/plan/model_spec.h"
#include "search/plan/model_stages.h"

namespace autocfg {

class KindsOfLayers {
 public:
  // Kinds whose ops are equal in sequences of `seq_len` tokens have one number.
  KindsOfLayers(const ModelSpec& model, std::int64_t seq_len);

  // All kinds, in the order of their first layers: at most kMostLayerKinds.
  const std::vector<LayerKind>& kinds() const { return kinds_; }
  bool AreAlike() const { return kinds_.size() == 1; }

  // Returns the number of a layer's kind. Layers count from 0.
  std::size_t Of(std::int64_t layer) const { return numbers_[static_cast<std::size_t>(layer)]; }

 private:
  std::vector<LayerKind> kinds_;
  std::vector<std::uint8_t> numbers_;  // of each layer
};

}  // namespace autocfg
