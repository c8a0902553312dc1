// The preset files of search/data, embedded in the binary. The definition is generated at build time.
#pragma once

#include <span>
#include <string_view>

namespace autocfg {

struct EmbeddedPreset {
  std::string_view kind;  // the directory under search/data: "models", "devices"
  std::string_view name;  // the file name without .json
  std::string_view json;
};

// Sorted by kind, then by name.
std::span<const EmbeddedPreset> EmbeddedPresets();

}  // namespace autocfg
