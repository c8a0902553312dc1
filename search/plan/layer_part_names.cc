#include "search/plan/layer_part_names.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace autocfg {

std::optional<LayerPart> FindLayerPart(std::string_view name) {
  const auto found = std::find(kLayerPartNames.begin(), kLayerPartNames.end(), name);
  if (found == kLayerPartNames.end()) return std::nullopt;
  return static_cast<LayerPart>(found - kLayerPartNames.begin());
}

std::vector<std::string_view> NamesOf(LayerParts parts) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kLayerPartNames.size(); ++i) {
    if (parts.Has(static_cast<LayerPart>(i))) names.push_back(kLayerPartNames[i]);
  }
  return names;
}

std::string LayerPartsText(LayerParts parts) { return fmt::format("{}", fmt::join(NamesOf(parts), "+")); }

}  // namespace autocfg
