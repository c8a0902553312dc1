#include "search/text/model_json.h"

#include <utility>

#include "base/json_fields.h"
#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/text/presets.h"

namespace autocfg {
namespace {

constexpr const char* kRopeScaling = "rope_scaling";
constexpr const char* kRopeScalingType = "type";
constexpr const char* kLayerKinds = "layer_kinds";

// Reads the parameters of an object, and replaces it by its type.
absl::Status ReadRopeScaling(nlohmann::ordered_json& scaling, RopeScalingParameters& parameters) {
  const nlohmann::ordered_json object = scaling;
  base::FieldReader reader("model", object, kRopeScaling);
  reader.Require(kRopeScalingType);
  base::ReadFields(reader, RopeScalingFields(), parameters);
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  scaling = object[kRopeScalingType];
  return absl::OkStatus();
}

absl::Status ReadLayerKinds(const nlohmann::ordered_json& kinds, ModelSpec& model) {
  if (!kinds.is_array() || kinds.empty()) {
    return base::InvalidArgument(
        "model", fmt::format("{} is {}; it must be a list of runs of layers, such as [{{\"layers\": 2, "
                             "\"window\": 1024}}, {{\"layers\": 1}}]",
                             kLayerKinds, base::Printable(kinds.dump())));
  }
  for (const nlohmann::ordered_json& kind : kinds) {
    base::FieldReader reader("model", kind, fmt::format("{}[{}]", kLayerKinds, model.layer_kinds.size()));
    base::RequireFields(reader, LayerRunFields());
    base::ReadFields(reader, LayerRunFields(), model.layer_kinds.emplace_back());
    AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSpec> ParseModelJson(const nlohmann::ordered_json& json) {
  ModelSpec model;
  nlohmann::ordered_json named = json;  // with the name of a scaling in place of its object
  if (named.is_object() && named.contains(kRopeScaling) && named[kRopeScaling].is_object())
    AUTOCFG_RETURN_IF_ERROR(ReadRopeScaling(named[kRopeScaling], model.rope_scaling_parameters));
  base::FieldReader reader("model", named);
  base::RequireFields(reader, ModelFields());
  base::ReadFields(reader, ModelFields(), model);
  LayerPattern pattern;
  base::ReadFields(reader, LayerPatternFields(), pattern);
  const nlohmann::ordered_json* kinds = reader.Find(kLayerKinds);
  if (json.is_object()) {
    ReadSources(reader, json);
    for (const auto& [key, value] : json.items()) {
      if (key.find("expert") == std::string::npos) continue;
      return base::Unimplemented("model",
                                 fmt::format("{} says that this is a mixture of experts, which is not "
                                             "supported yet; use a dense model",
                                             base::Printable(key)));
    }
  }
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  if (kinds != nullptr) AUTOCFG_RETURN_IF_ERROR(ReadLayerKinds(*kinds, model));
  AUTOCFG_RETURN_IF_ERROR(ApplyPattern(pattern, model));
  if (model.position != Position::kRope && model.rope_theta != ModelSpec{}.rope_theta) {
    return base::InvalidArgument(
        "model",
        fmt::format("rope_theta is {}, but position is {}; leave rope_theta out or set position to rope",
                    model.rope_theta, Name(model.position)));
  }

  ModelSpec complete = model;
  FillDefaults(complete);
  AUTOCFG_RETURN_IF_ERROR(Validate(complete));
  NormalizeKinds(complete);
  complete.max_seq_len = model.max_seq_len;  // its default depends on the sequence length asked for
  return complete;
}

absl::StatusOr<ModelSpec> ParseModelText(std::string_view text) {
  AUTOCFG_ASSIGN_OR_RETURN(nlohmann::ordered_json json, base::ParseJson("model", text));
  return ParseModelJson(json);
}

nlohmann::ordered_json ModelJson(const ModelSpec& model) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  base::WriteFields(ModelFields(), model, json);
  if (model.position != Position::kRope) json.erase("rope_theta");
  if (model.rope_scaling != RopeScaling::kNone && !NamesRopeScalingAlone(model)) {
    json[kRopeScaling] = {{kRopeScalingType, Name(model.rope_scaling)}};
    base::WriteFields(RopeScalingFields(), model.rope_scaling_parameters, json[kRopeScaling]);
  }
  for (const LayerRun& run : model.layer_kinds) {
    nlohmann::ordered_json kind = nlohmann::ordered_json::object();
    base::WriteFields(LayerRunFields(), run, kind);
    json[kLayerKinds].push_back(std::move(kind));
  }
  return json;
}

std::vector<std::string> ModelPresetNames() {
  std::vector<std::string> names;
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind == "models") names.emplace_back(preset.name);
  }
  return names;
}

absl::StatusOr<ModelSpec> ModelPreset(std::string_view name) {
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind == "models" && preset.name == name) return ParseModelText(preset.json);
  }
  const std::string near = base::DidYouMeanOfListed(name, ModelPresetNames());
  return base::NotFound(
      "model",
      fmt::format("no preset is called \"{}\"{}", base::Printable(name),
                  near.empty() ? "; give one that autocfg models lists, or a Hugging Face config.json"
                               : near + " autocfg models lists all; a Hugging Face config.json also works"));
}

}  // namespace autocfg
