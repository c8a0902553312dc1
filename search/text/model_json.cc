#include "search/text/model_json.h"

#include "base/json_reader.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/text/presets.h"

namespace autocfg {
namespace {

void ReadFields(base::FieldReader& reader, ModelSpec& model) {
  reader.String("name", model.name);
  reader.Size("layers", model.layers);
  reader.Size("hidden", model.hidden);
  reader.Size("heads", model.heads);
  reader.Size("kv_heads", model.kv_heads);
  reader.Size("head_dim", model.head_dim);
  reader.Size("ffn_hidden", model.ffn_hidden);
  reader.Size("vocab", model.vocab);
  reader.Size("max_seq_len", model.max_seq_len);
  reader.Named("activation", model.activation, ParseActivation,
               {"gelu", "gelu_erf", "relu", "swiglu", "geglu"});
  reader.Named("norm", model.norm, ParseNorm, {"layernorm", "rmsnorm"});
  reader.Number("norm_eps", model.norm_eps);
  reader.Named("position", model.position, ParsePosition, {"learned", "rope", "alibi", "none"});
  reader.Number("rope_theta", model.rope_theta);
  reader.String("rope_scaling", model.rope_scaling);
  reader.Bool("bias", model.bias);
  reader.Bool("tied_embeddings", model.tied_embeddings);
  reader.Number("init_std", model.init_std);
  reader.Size("vocab_multiple", model.vocab_multiple);
}

}  // namespace

std::vector<std::string> ModelFieldNames() {
  const nlohmann::ordered_json none = nlohmann::ordered_json::object();
  base::FieldReader reader("model", none);
  ModelSpec model;
  ReadFields(reader, model);
  return reader.known();
}

absl::StatusOr<ModelSpec> ParseModelJson(const nlohmann::ordered_json& json) {
  ModelSpec model;
  base::FieldReader reader("model", json);
  for (const std::string_view name : {"layers", "hidden", "heads", "vocab"}) reader.Require(name);
  ReadFields(reader, model);
  if (json.is_object()) ReadSources(reader, json);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  if (model.position != Position::kRope && model.rope_theta != ModelSpec{}.rope_theta) {
    return base::InvalidArgument(
        "model",
        fmt::format("rope_theta is {}, but position is {}; leave rope_theta out or set position to rope",
                    model.rope_theta, Name(model.position)));
  }

  ModelSpec complete = model;
  FillDefaults(complete);
  if (absl::Status status = Validate(complete); !status.ok()) return status;
  complete.max_seq_len = model.max_seq_len;  // its default depends on the sequence length asked for
  return complete;
}

absl::StatusOr<ModelSpec> ParseModelText(std::string_view text) {
  absl::StatusOr<nlohmann::ordered_json> json = base::ParseJson("model", text);
  if (!json.ok()) return json.status();
  return ParseModelJson(*json);
}

nlohmann::ordered_json ModelJson(const ModelSpec& model) {
  nlohmann::ordered_json json = {
      {"name", model.name},
      {"layers", model.layers},
      {"hidden", model.hidden},
      {"heads", model.heads},
  };
  // Omits sizes that still have to be filled in.
  const auto size = [&json](std::string_view name, std::int64_t value) {
    if (value != 0) json[std::string(name)] = value;
  };
  size("kv_heads", model.kv_heads);
  size("head_dim", model.head_dim);
  size("ffn_hidden", model.ffn_hidden);
  json["vocab"] = model.vocab;
  size("max_seq_len", model.max_seq_len);
  json["activation"] = Name(model.activation);
  json["norm"] = Name(model.norm);
  json["norm_eps"] = model.norm_eps;
  json["position"] = Name(model.position);
  if (model.position == Position::kRope) json["rope_theta"] = model.rope_theta;
  if (!model.rope_scaling.empty()) json["rope_scaling"] = model.rope_scaling;
  json["bias"] = model.bias;
  json["tied_embeddings"] = model.tied_embeddings;
  json["init_std"] = model.init_std;
  json["vocab_multiple"] = model.vocab_multiple;
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
  return base::NotFound("model", fmt::format("no preset is called \"{}\"{}", base::Printable(name),
                                             base::DidYouMeanPreset(name, ModelPresetNames())));
}

}  // namespace autocfg
