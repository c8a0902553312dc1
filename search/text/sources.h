// Validates where the figures of a fact file come from: "source" is one sentence for all, "sources" has one
// per field or per several fields, e.g. {"memory_bytes": "...", "layers, hidden": "..."}. The texts are not
// kept. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/json_reader.h"

namespace autocfg {

// Reads both fields of `reader`'s object `json`, if present. Fails `reader` if `source` is not a string, or
// if `sources` is not an object of strings whose keys name fields of `json`.
void ReadSources(base::FieldReader& reader, const nlohmann::ordered_json& json);

// Returns the fields that a key of "sources" names: "a, b" -> a and b.
std::vector<std::string> SourcedFields(const std::string& key);

}  // namespace autocfg
