// Converts a Hugging Face config.json to a ModelSpec, for the supported model types gpt2 and llama. Pure
// functions, thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/model_spec.h"

namespace autocfg {

// Returns true if the JSON object is such a file: it has a model_type, or field names of a file that lacks
// it.
bool IsHuggingFaceConfig(const nlohmann::ordered_json& json);

// Imports a configuration. Missing fields take the defaults of the model type's configuration class in
// transformers. Fields that do not change a training step (dropout, token ids, generation, initialisation of
// other parts) are ignored, as are unknown fields, which these files often have.
//
// InvalidArgument names a field that is wrong or contradicts another. Unimplemented names a field whose
// computation "is not supported yet": another model_type, architectures with another head, partially rotated
// heads, an unknown rope_scaling, another activation, biases of only some linear layers. A known rope_scaling
// is kept by name: it can be predicted, but the engine does not run it (CheckEngineSupports).
absl::StatusOr<ModelSpec> ImportHuggingFace(const nlohmann::ordered_json& json);

}  // namespace autocfg
