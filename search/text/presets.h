// The preset files of search/data, embedded in the binary, and the check of where their figures come from.
// Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"

namespace autocfg {

// A file of search/data.
struct EmbeddedPreset {
  std::string_view kind;  // the directory under search/data: "models", "devices"
  std::string_view name;  // the file name without .json
  std::string_view json;
};

// Returns all presets, sorted by kind, then by name. Defined in a source that the build generates.
std::span<const EmbeddedPreset> EmbeddedPresets();

// A fact file says where its figures come from: "source" is one sentence for all, "sources" has one per field
// or per several fields, e.g. {"memory_bytes": "...", "layers, hidden": "..."}. The texts are not kept.
//
// Reads both fields of `reader`'s object `json`, if present. Fails `reader` if `source` is not a string, or
// if `sources` is not an object of strings whose keys name fields of `json`.
void ReadSources(base::FieldReader& reader, const nlohmann::ordered_json& json);

// Returns the fields that a key of "sources" names: "a, b" -> a and b.
std::vector<std::string> SourcedFields(const std::string& key);

}  // namespace autocfg
