// Hugging Face's config.json -> ModelSpec, for the model types whose computation is ours: gpt2 and llama.
// Pure functions, thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/model_spec.h"

namespace autocfg {

// Whether an object of JSON is such a file: it says its model_type, or has the names of one that should.
bool IsHuggingFaceConfig(const nlohmann::ordered_json& json);

// Fields that are left out take the defaults of that type's configuration class in transformers. Fields that
// do not change what a training step computes (dropout, token ids, generation, initialisation of other parts)
// are passed over, as are unknown ones: these files carry many of them. InvalidArgument names a field that is
// wrong, or contradicts another; Unimplemented one whose computation "is not supported yet": another
// model_type, architectures with another head, heads that are rotated in part, an unknown rope_scaling,
// another activation, biases of some linear layers only. A known rope_scaling is kept by name: predictions
// take it, the engine does not (CheckEngineSupports).
absl::StatusOr<ModelSpec> ImportHuggingFace(const nlohmann::ordered_json& json);

}  // namespace autocfg
