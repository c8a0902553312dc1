#include "search/hugging_face/hugging_face.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/hugging_face/config_reader.h"
#include "search/hugging_face/model_families.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxFields = 1000;

// Types of mixtures of experts. Most also have a field that says how many experts there are.
constexpr std::array<std::string_view, 16> kExpertTypes = {
    "mixtral",     "qwen2_moe", "qwen3_moe",  "deepseek_v2",
    "deepseek_v3", "olmoe",     "granitemoe", "dbrx",
    "phimoe",      "minimax",   "gpt_oss",    "jetmoe",
    "arctic",      "grok-1",    "nllb-moe",   "switch_transformers"};
// Objects that may hold the fields of the language model.
constexpr std::array<std::string_view, 3> kInnerConfigs = {"text_config", "ffn_config", "llm_config"};

absl::Status ExpertsNotYet(std::string_view field, const Json& value) {
  return base::Unimplemented(
      "model",
      fmt::format("config.json: {} = {} says that this is a mixture of experts, which is not supported yet; "
                  "use a dense model",
                  field, base::Printable(value.dump())));
}

// Refuses a mixture of experts: by its type, or by a number of experts above 1.
absl::Status CheckDense(const Json& json, const std::string& path) {
  if (const auto type = json.find("model_type"); type != json.end() && type->is_string()) {
    const auto& name = type->get_ref<const std::string&>();
    if (name.ends_with("_moe") ||
        std::find(kExpertTypes.begin(), kExpertTypes.end(), name) != kExpertTypes.end())
      return ExpertsNotYet(path + "model_type", *type);
  }
  for (const auto& [key, value] : json.items()) {
    if (key.find("experts") == std::string::npos || value.is_null() || value.is_boolean()) continue;
    if (!(value.is_number() && value.get<double>() <= 1))
      return ExpertsNotYet(path + base::Printable(key), value);
  }
  for (const std::string_view inner : kInnerConfigs) {
    const auto found = json.find(std::string(inner));
    if (found == json.end() || !found->is_object()) continue;
    AUTOCFG_RETURN_IF_ERROR(CheckDense(*found, fmt::format("{}{}.", path, inner)));
  }
  return absl::OkStatus();
}

std::string FamilyTypes() {
  std::vector<std::string> types;
  for (const ModelFamily& family : ModelFamilies()) types.emplace_back(family.type);
  return base::ChoiceText(types);
}

// Accepts the head of the type's language model: next-token logits.
absl::Status CheckArchitectures(const Json& json, const ModelFamily& family) {
  const auto found = json.find("architectures");
  if (found == json.end() || found->is_null()) return absl::OkStatus();
  const auto is_name = [](const Json& name) { return name.is_string(); };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_name))
    return ConfigContradiction("architectures must be a list of names");
  for (const Json& name : *found) {
    if (name != family.architecture) {
      return ConfigNotYet(
          "architectures", name,
          fmt::format("use {}, a language model that predicts the next token", family.architecture));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNotQuantized(const Json& json) {
  const auto quantized = json.find("quantization_config");
  if (quantized == json.end() || quantized->is_null()) return absl::OkStatus();
  return ConfigNotYet("quantization_config", *quantized, "remove it to train in the precision asked for");
}

// Returns the object that describes the language model: the file, or its text_config.
absl::StatusOr<const Json*> TextPart(const Json& json, const ModelFamily& family) {
  if (family.text_type.empty()) return &json;
  const auto text = json.find("text_config");
  if (text == json.end() || !text->is_object()) {
    return ConfigContradiction(
        fmt::format("text_config is missing; model_type {} needs it, with the fields of {}", family.type,
                    family.text_type));
  }
  const auto type = text->find("model_type");
  if (type != text->end() && *type != family.text_type) {
    return ConfigNotYet("text_config.model_type", *type, fmt::format("use {}", family.text_type));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckNotQuantized(*text));
  return &*text;
}

}  // namespace

bool IsHuggingFaceConfig(const Json& json) {
  if (!json.is_object()) return false;
  if (json.contains("model_type")) return true;
  // Without a model_type, fields of Hugging Face tell the file from one of our own.
  return !json.contains("layers") &&
         (json.contains("architectures") || json.contains("num_hidden_layers") || json.contains("n_layer"));
}

bool StoresNormsLessOne(const Json& json) {
  return json.is_object() && json.contains("model_type") && json["model_type"] == "gemma";
}

absl::StatusOr<ModelSpec> ImportHuggingFace(const Json& json, std::vector<std::string>* notes) {
  if (!json.is_object()) return ConfigContradiction("it must be a JSON object");
  AUTOCFG_RETURN_IF_ERROR(CheckDense(json, ""));
  if (json.size() > kMaxFields)
    return ConfigContradiction(fmt::format("it has {} fields; at most {} are read", json.size(), kMaxFields));
  AUTOCFG_RETURN_IF_ERROR(CheckNotQuantized(json));
  const auto type = json.find("model_type");
  if (type == json.end())
    return ConfigContradiction(fmt::format("model_type is missing; give {}", FamilyTypes()));
  if (!type->is_string())
    return ConfigContradiction(fmt::format("model_type is {}; it must be a string, such as gpt2 or llama",
                                           base::Printable(type->dump())));
  const ModelFamily* family = FindFamily(type->get_ref<const std::string&>());
  if (family == nullptr) {
    return ConfigNotYet("model_type", *type,
                        fmt::format("use {}, or describe the model in a file of our own", FamilyTypes()));
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto text, TextPart(json, *family));
  ConfigReader reader(*text);
  ModelSpec model;
  family->read(reader, model);
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  AUTOCFG_RETURN_IF_ERROR(CheckArchitectures(json, *family));
  if (const auto name = json.find("_name_or_path"); name != json.end() && name->is_string())
    model.name = name->get<std::string>();
  if (model.name.empty()) model.name = type->get<std::string>();
  FillDefaults(model);
  AUTOCFG_RETURN_IF_ERROR(Validate(model));
  if (notes != nullptr && !family->text_type.empty())
    notes->push_back(fmt::format("of the {} in config.json the text part alone is taken", family->type));
  return model;
}

}  // namespace autocfg
