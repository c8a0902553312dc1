#include "search/import/hugging_face.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_reader.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSubject = "model";
constexpr std::string_view kFile = "config.json";
constexpr std::size_t kMaxFields = 1000;

absl::Status NotYet(std::string_view field, const Json& value, std::string_view instead) {
  return base::Unimplemented(kSubject, fmt::format("{}: {} = {} is not supported yet; {}", kFile, field,
                                                   base::Printable(value.dump()), instead));
}

absl::Status Contradiction(std::string_view problem) {
  return base::InvalidArgument(kSubject, fmt::format("{}: {}", kFile, problem));
}

// Reads the fields of a configuration. A null value counts as absent, as in Python.
class ConfigReader {
 public:
  explicit ConfigReader(const Json& json) : json_(WithoutNulls(json)), fields_(kSubject, json_, kFile) {}

  void Size(std::string_view name, std::int64_t& value) { fields_.Size(name, value); }
  void Number(std::string_view name, double& value) { fields_.Number(name, value); }
  void Bool(std::string_view name, bool& value) { fields_.Bool(name, value); }
  void Require(std::string_view name) { fields_.Require(name); }
  const Json* Find(std::string_view name) { return fields_.Find(name); }

  // Requires a field, if present, to have the only value that the engine computes.
  void Only(std::string_view name, const Json& wanted, std::string_view instead) {
    const Json* value = fields_.Find(name);
    if (value != nullptr && *value != wanted) fields_.Fail(NotYet(name, *value, instead));
  }

  // Rejects mixtures of experts and attention to a part of the sequence. Read after max_seq_len.
  void DenseWithFullAttention(std::int64_t max_seq_len) {
    for (const std::string_view name : {"num_local_experts", "num_experts", "n_routed_experts"}) {
      const Json* experts = fields_.Find(name);
      if (experts != nullptr && !(experts->is_number() && experts->get<double>() <= 1))
        fields_.Fail(
            NotYet(name, *experts, "use a dense model, or remove it to have the model without experts"));
    }
    const Json* window = fields_.Find("sliding_window");
    const Json* used = fields_.Find("use_sliding_window");
    if (window == nullptr || (used != nullptr && *used == false)) return;
    if (!window->is_number() || window->get<double>() < static_cast<double>(max_seq_len)) {
      fields_.Fail(
          NotYet("sliding_window", *window,
                 "remove it, or give at least max_position_embeddings, to attend to the whole sequence"));
    }
  }

  // Reads an activation function by its name in transformers.
  void Function(std::string_view name, bool gated, Activation& activation) {
    std::string text;
    fields_.String(name, text);
    if (text.empty()) return;
    struct Known {
      std::string_view name;
      bool gated;
      Activation activation;
    };
    for (const Known& known :
         {Known{"gelu_new", false, Activation::kGelu}, Known{"gelu_pytorch_tanh", false, Activation::kGelu},
          Known{"gelu", false, Activation::kGeluErf}, Known{"relu", false, Activation::kRelu},
          Known{"silu", true, Activation::kSwiGlu}, Known{"swish", true, Activation::kSwiGlu},
          Known{"gelu_new", true, Activation::kGeGlu},
          Known{"gelu_pytorch_tanh", true, Activation::kGeGlu}}) {
      if (known.name == text && known.gated == gated) {
        activation = known.activation;
        return;
      }
    }
    fields_.Fail(NotYet(
        name, text,
        gated ? "use silu, gelu_new or gelu_pytorch_tanh" : "use gelu_new, gelu_pytorch_tanh, gelu or relu"));
  }

  // Returns the first error. Unknown fields are ignored.
  absl::Status Finish() {
    for (const auto& [key, value] : json_.items()) fields_.Find(key);
    return fields_.Finish();
  }

 private:
  static Json WithoutNulls(const Json& json) {
    Json given = Json::object();
    for (const auto& [key, value] : json.items()) {
      if (!value.is_null()) given[key] = value;
    }
    return given;
  }

  Json json_;
  base::FieldReader fields_;
};

// Older files use n_ctx, which meant the same as n_positions.
absl::StatusOr<ModelSpec> ImportGpt2(const Json& json) {
  ModelSpec model{.activation = Activation::kGelu};
  ConfigReader reader(json);
  for (const std::string_view name : {"n_layer", "n_embd", "n_head", "vocab_size"}) reader.Require(name);
  reader.Size("n_layer", model.layers);
  reader.Size("n_embd", model.hidden);
  reader.Size("n_head", model.heads);
  reader.Size("n_inner", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = 1024;
  reader.Size("n_positions", model.max_seq_len);
  reader.Function("activation_function", false, model.activation);
  reader.Number("layer_norm_epsilon", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  reader.Only("scale_attn_weights", true, "use true");
  reader.Only("scale_attn_by_inverse_layer_idx", false, "use false");
  reader.Only("add_cross_attention", false, "use false");
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return model;
}

// Newer files store rope_theta in rope_parameters.
absl::Status ReadRope(ConfigReader& reader, ModelSpec& model) {
  reader.Number("rope_theta", model.rope_theta);
  for (const std::string_view name : {"rope_scaling", "rope_parameters"}) {
    const Json* rope = reader.Find(name);
    if (rope == nullptr) continue;
    if (!rope->is_object()) return Contradiction(fmt::format("{} must be an object", name));
    // Keeps only the name of a known scaling: its other fields change frequencies, which only training needs.
    for (const char* key : {"rope_type", "type"}) {
      const auto type = rope->find(key);
      if (type != rope->end() && type->is_string() && IsRopeScaling(type->get_ref<const std::string&>())) {
        model.rope_scaling = type->get<std::string>();
      }
    }
    for (const auto& [key, value] : rope->items()) {
      if (key == "rope_theta" && value.is_number() && value.get<double>() > 0) {
        model.rope_theta = value.get<double>();
      } else if (((key == "rope_type" || key == "type") && value == "default") ||
                 (key == "partial_rotary_factor" && value == 1.0)) {
        continue;
      } else if (key == "partial_rotary_factor") {
        return NotYet(fmt::format("{}.{}", name, key), value, "use 1, which rotates whole heads");
      } else if (model.rope_scaling.empty()) {
        return NotYet(fmt::format("{}.{}", name, base::Printable(key)), value,
                      "remove it to train with the frequencies of rope_theta alone");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelSpec> ImportLlama(const Json& json) {
  ModelSpec model{.activation = Activation::kSwiGlu,
                  .norm = Norm::kRmsNorm,
                  .norm_eps = 1e-6,
                  .position = Position::kRope,
                  .tied_embeddings = false};
  ConfigReader reader(json);
  for (const std::string_view name :
       {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"}) {
    reader.Require(name);
  }
  reader.Size("num_hidden_layers", model.layers);
  reader.Size("hidden_size", model.hidden);
  reader.Size("num_attention_heads", model.heads);
  reader.Size("num_key_value_heads", model.kv_heads);
  reader.Size("head_dim", model.head_dim);
  reader.Size("intermediate_size", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = 2048;
  reader.Size("max_position_embeddings", model.max_seq_len);
  reader.Function("hidden_act", true, model.activation);
  reader.Number("rms_norm_eps", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  bool attention_bias = false;
  bool mlp_bias = false;
  reader.Bool("attention_bias", attention_bias);
  reader.Bool("mlp_bias", mlp_bias);
  reader.Only("partial_rotary_factor", 1.0, "use 1, which rotates whole heads");
  reader.DenseWithFullAttention(model.max_seq_len);
  const absl::Status rope = ReadRope(reader, model);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  if (!rope.ok()) return rope;
  model.qkv_bias = attention_bias;
  model.attention_out_bias = attention_bias;
  model.mlp_bias = mlp_bias;
  return model;
}

// Accepts the heads that the engine's models have: next-token logits.
absl::Status CheckArchitectures(const Json& json) {
  const auto found = json.find("architectures");
  if (found == json.end() || found->is_null()) return absl::OkStatus();
  if (!found->is_array()) return Contradiction("architectures must be a list of names");
  for (const Json& name : *found) {
    if (!name.is_string()) return Contradiction("architectures must be a list of names");
    if (name != "GPT2LMHeadModel" && name != "LlamaForCausalLM")
      return NotYet("architectures", name,
                    "use GPT2LMHeadModel or LlamaForCausalLM, a language model that predicts the next token");
  }
  return absl::OkStatus();
}

}  // namespace

bool IsHuggingFaceConfig(const Json& json) {
  if (!json.is_object()) return false;
  if (json.contains("model_type")) return true;
  // Without a model_type, fields of Hugging Face tell the file from one of our own.
  return !json.contains("layers") &&
         (json.contains("architectures") || json.contains("num_hidden_layers") || json.contains("n_layer"));
}

absl::StatusOr<ModelSpec> ImportHuggingFace(const Json& json) {
  if (!json.is_object()) return Contradiction("it must be a JSON object");
  if (json.size() > kMaxFields)
    return Contradiction(fmt::format("it has {} fields; at most {} are read", json.size(), kMaxFields));
  if (const auto quantized = json.find("quantization_config");
      quantized != json.end() && !quantized->is_null()) {
    return NotYet("quantization_config", *quantized, "remove it to train in the precision asked for");
  }
  const auto type = json.find("model_type");
  if (type == json.end()) return Contradiction("model_type is missing; give gpt2 or llama");
  if (!type->is_string()) return Contradiction("model_type must be a string, such as gpt2 or llama");
  absl::StatusOr<ModelSpec> model;
  if (*type == "gpt2") {
    model = ImportGpt2(json);
  } else if (*type == "llama") {
    model = ImportLlama(json);
  } else {
    return NotYet("model_type", *type, "use gpt2 or llama, or describe the model in a file of our own");
  }
  if (!model.ok()) return model.status();
  if (absl::Status status = CheckArchitectures(json); !status.ok()) return status;
  if (const auto name = json.find("_name_or_path"); name != json.end() && name->is_string())
    model->name = name->get<std::string>();
  if (model->name.empty()) model->name = type->get<std::string>();
  FillDefaults(*model);
  if (absl::Status status = Validate(*model); !status.ok()) return status;
  return model;
}

}  // namespace autocfg
