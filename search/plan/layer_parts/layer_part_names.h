// Names of the parts of a layer, as plans write them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "search/plan/layer_parts/layer_parts.h"

namespace autocfg {

// The part with this name; nothing if there is none.
inline std::optional<LayerPart> FindLayerPart(std::string_view name) {
  const auto found = std::find(kLayerPartNames.begin(), kLayerPartNames.end(), name);
  if (found == kLayerPartNames.end()) return std::nullopt;
  return static_cast<LayerPart>(found - kLayerPartNames.begin());
}

// The names of the parts, in the order of LayerPart.
inline std::vector<std::string_view> NamesOf(LayerParts parts) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kLayerPartNames.size(); ++i) {
    if (parts.Has(static_cast<LayerPart>(i))) names.push_back(kLayerPartNames[i]);
  }
  return names;
}

// As in a plan's text: core_attn+norm.
inline std::string LayerPartsText(LayerParts parts) {
  return fmt::format("{}", fmt::join(NamesOf(parts), "+"));
}

}  // namespace autocfg
