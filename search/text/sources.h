// Where the figures of a file of facts come from: "source", one sentence for all, and "sources", by field, e.g. {"memory_bytes": "...",
// "flops_per_s": "..."}. Read for their form and not kept. Thread-safe.
#pragma once

#include "search/text/json_util.h"

namespace autocfg {

// Reads both fields of `reader`'s object `json`, where they are there. Fails `reader` where `source` is no string, or `sources`
// is no object of strings whose keys are fields of `json`.
void ReadSources(FieldReader& reader, const nlohmann::ordered_json& json);

}  // namespace autocfg
