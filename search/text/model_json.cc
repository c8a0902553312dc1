#include "search/text/model_json.h"

#include "base/json_reader.h"
#include "base/status_macros.h"
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
  bool bias = model.qkv_bias;
  reader.Bool("bias", bias);
  SetBiases(model, bias);
  reader.Bool("qkv_bias", model.qkv_bias);
  reader.Bool("attention_out_bias", model.attention_out_bias);
  reader.Bool("mlp_bias", model.mlp_bias);
  reader.Bool("tied_embeddings", model.tied_embeddings);
  reader.Number("init_std", model.init_std);
  reader.Size("vocab_multiple", model.vocab_multiple);
  reader.Named("qk_norm", model.qk_norm, ParseQkNorm, {"none", "head", "full"});
  reader.Named("norm_placement", model.norm_placement, ParseNormPlacement, {"pre", "output", "sandwich"});
  reader.Bool("parallel_residual", model.parallel_residual);
  reader.Bool("shared_norm", model.shared_norm);
  reader.Bool("embedding_norm", model.embedding_norm);
  reader.Number("partial_rotary_factor", model.partial_rotary_factor);
  reader.Number("embedding_scale", model.embedding_scale);
  reader.Number("attention_scale", model.attention_scale);
  reader.Number("residual_scale", model.residual_scale);
  reader.Number("logit_scale", model.logit_scale);
  reader.Number("attention_softcap", model.attention_softcap);
  reader.Number("output_softcap", model.output_softcap);
  reader.Size("sliding_window", model.sliding_window, 0);
  reader.Size("sliding_window_pattern", model.sliding_window_pattern, 0);
  reader.Size("no_rope_layer_interval", model.no_rope_layer_interval, 0);
}

// Writes the fields that few models have, where they differ from their defaults.
void WriteFeatures(const ModelSpec& model, nlohmann::ordered_json& json) {
  const ModelSpec none;
  const auto write = [&json](std::string_view name, const auto& value, const auto& usual) {
    if (value != usual) json[std::string(name)] = value;
  };
  if (model.qk_norm != none.qk_norm) json["qk_norm"] = Name(model.qk_norm);
  if (model.norm_placement != none.norm_placement) json["norm_placement"] = Name(model.norm_placement);
  write("parallel_residual", model.parallel_residual, none.parallel_residual);
  write("shared_norm", model.shared_norm, none.shared_norm);
  write("embedding_norm", model.embedding_norm, none.embedding_norm);
  write("partial_rotary_factor", model.partial_rotary_factor, none.partial_rotary_factor);
  write("embedding_scale", model.embedding_scale, none.embedding_scale);
  write("attention_scale", model.attention_scale, none.attention_scale);
  write("residual_scale", model.residual_scale, none.residual_scale);
  write("logit_scale", model.logit_scale, none.logit_scale);
  write("attention_softcap", model.attention_softcap, none.attention_softcap);
  write("output_softcap", model.output_softcap, none.output_softcap);
  write("sliding_window", model.sliding_window, none.sliding_window);
  write("sliding_window_pattern", model.sliding_window_pattern, none.sliding_window_pattern);
  write("no_rope_layer_interval", model.no_rope_layer_interval, none.no_rope_layer_interval);
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
  if (model.position != Position::kRope && model.rope_theta != ModelSpec{}.rope_theta) {
    return base::InvalidArgument(
        "model",
        fmt::format("rope_theta is {}, but position is {}; leave rope_theta out or set position to rope",
                    model.rope_theta, Name(model.position)));
  }

  ModelSpec complete = model;
  FillDefaults(complete);
  AUTOCFG_RETURN_IF_ERROR(Validate(complete));
  complete.max_seq_len = model.max_seq_len;  // its default depends on the sequence length asked for
  return complete;
}

absl::StatusOr<ModelSpec> ParseModelText(std::string_view text) {
  AUTOCFG_ASSIGN_OR_RETURN(nlohmann::ordered_json json, base::ParseJson("model", text));
  return ParseModelJson(json);
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
  if (model.qkv_bias == model.attention_out_bias && model.qkv_bias == model.mlp_bias) {
    json["bias"] = model.qkv_bias;
  } else {
    json["qkv_bias"] = model.qkv_bias;
    json["attention_out_bias"] = model.attention_out_bias;
    json["mlp_bias"] = model.mlp_bias;
  }
  json["tied_embeddings"] = model.tied_embeddings;
  json["init_std"] = model.init_std;
  json["vocab_multiple"] = model.vocab_multiple;
  WriteFeatures(model, json);
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
