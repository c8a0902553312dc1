// Where the figures of a file of facts come from: "source", one sentence for all, and "sources", by field or
// by several at once, e.g. {"memory_bytes": "...", "layers, hidden": "..."}. Read for their form and not
// kept. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/json_reader.h"

namespace autocfg {

// Reads both fields of `reader`'s object `json`, where they are there. Fails `reader` where `source` is no
// string, or `sources` is no object of strings whose keys name fields of `json`.
void ReadSources(FieldReader& reader, const nlohmann::ordered_json& json);

// The fields that a key of "sources" names: "a, b" -> a and b.
std::vector<std::string> SourcedFields(const std::string& key);

}  // namespace autocfg
