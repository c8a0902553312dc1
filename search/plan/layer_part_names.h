// Names of the parts of a layer, as plans write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/plan/layer_parts.h"

namespace autocfg {

// The part with this name; nothing if there is none.
std::optional<LayerPart> FindLayerPart(std::string_view name);
// The names of the parts, in the order of LayerPart.
std::vector<std::string_view> NamesOf(LayerParts parts);
// As in a plan's text: core_attn+norm.
std::string LayerPartsText(LayerParts parts);

}  // namespace autocfg
