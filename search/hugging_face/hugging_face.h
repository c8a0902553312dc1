// Converts a Hugging Face config.json to a ModelSpec, for the model types of model_families.h. Pure
// functions, thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "search/plan/model_spec.h"

namespace autocfg {

// Returns true if the JSON object is such a file: it has a model_type, or field names of a file that lacks
// it.
bool IsHuggingFaceConfig(const nlohmann::ordered_json& json);

// Returns what the weights of this configuration's model mean otherwise than those of the model that their
// names and shapes are of: "norms of gemma's weights store what is added to 1". Empty: nothing.
std::string OtherMeaningOfWeights(const nlohmann::ordered_json& json);

// Imports a configuration. Missing fields take the defaults of the model type's configuration class in
// transformers. Fields that do not change a training step (dropout, token ids, generation, initialisation of
// other parts) are ignored, as are unknown fields, which these files often have. Of a model of several
// modalities the text part alone is taken, which `notes` says. A part that no field of a ModelSpec describes
// is left out if it changes neither memory nor time noticeably (a bias of the output layer, the biases of
// norms, clipping): `notes` and ModelSpec::undescribed name it. Any other is refused by name.
//
// InvalidArgument names a field that is wrong or contradicts another. Unimplemented names a field whose
// computation "is not supported yet": another model_type, architectures with another head, an unknown
// rope_scaling, another activation. A mixture of experts is refused as such, whatever else the file holds; so
// are adapters, encoders, models with state-space layers, and quantized weights.
absl::StatusOr<ModelSpec> ImportHuggingFace(const nlohmann::ordered_json& json,
                                            std::vector<std::string>* notes = nullptr);

}  // namespace autocfg
