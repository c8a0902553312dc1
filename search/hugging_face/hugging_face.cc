#include "search/hugging_face/hugging_face.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

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

// Types of models that are not dense decoders, or whose layers no ModelSpec describes, and what they are.
struct OtherTypes {
  std::string_view feature;
  std::vector<std::string_view> types;
};

const std::vector<OtherTypes>& KnownOtherTypes() {
  static const auto* const kTypes = new std::vector<OtherTypes>{
      {"has state-space or recurrent layers",
       {"mamba",
        "mamba2",
        "falcon_mamba",
        "rwkv",
        "rwkv5",
        "rwkv6",
        "rwkv7",
        "xlstm",
        "jamba",
        "recurrent_gemma",
        "zamba",
        "zamba2",
        "bamba",
        "nemotron_h",
        "falcon_h1",
        "plamo2",
        "phi4flash",
        "qwen3_next",
        "hymba",
        "qwen3_5",
        "qwen3_5_text",
        "retnet",
        "granitemoehybrid",
        "kimi_linear",
        "olmo_hybrid"}},
      {"has layers of convolution", {"lfm2", "stripedhyena", "evo2"}},
      {"is an encoder", {"bert",       "roberta",  "xlm-roberta", "xlm-roberta-xl", "camembert",
                         "distilbert", "albert",   "electra",     "deberta",        "deberta-v2",
                         "modernbert", "eurobert", "nomic_bert",  "longformer",     "mpnet",
                         "ernie",      "roformer", "vit",         "clip",           "siglip"}},
      {"is an encoder with a decoder",
       {"t5", "mt5", "umt5", "longt5", "t5gemma", "bart", "mbart", "led", "pegasus", "marian", "m2m_100",
        "prophetnet", "blenderbot", "whisper", "encoder-decoder"}},
      {"has latent attention (MLA)", {"minicpm3", "youtu"}},
      {"has layers of different shapes", {"nemotron-nas", "deci", "deci_lm", "openelm"}},
      {"has differential attention", {"diffllama", "Motif"}},
      {"has embeddings in each layer", {"gemma3n", "gemma3n_text", "gemma4", "gemma4_text"}},
      {"has cross-attention to images", {"mllama", "mllama_text_model"}},
      {"has norms within attention and feed-forward", {"bitnet"}},
  };
  return *kTypes;
}

// Fields that only such models have, by how their names begin.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOtherFields = {
    {{"mamba_", "has state-space or recurrent layers"},
     {"ssm_", "has state-space or recurrent layers"},
     {"linear_num_key_heads", "has state-space or recurrent layers"},
     {"kv_lora_rank", "has latent attention (MLA)"}}};

absl::Status OtherNotYet(std::string_view field, const Json& value, std::string_view feature) {
  return base::Unimplemented(
      "model",
      fmt::format("config.json: {} = {} says that this {}, which is not supported yet; use a dense decoder",
                  field, base::Printable(value.dump()), feature));
}

// Whether a file of a type that may have layers of several kinds has attention in all.
bool HasAttentionAlone(const Json& json) {
  const auto types = json.find("layer_types");
  return json.value("model_type", Json()) == "granitemoehybrid" && types != json.end() && types->is_array() &&
         std::ranges::all_of(*types, [](const Json& type) { return type == "attention"; });
}

// Refuses files of adapters and of models that are no dense decoders, and names what they are.
absl::Status CheckDecoder(const Json& json, const std::string& path) {
  if (const auto adapter = json.find("peft_type"); adapter != json.end()) {
    const auto base_model = json.find("base_model_name_or_path");
    const bool named = base_model != json.end() && base_model->is_string();
    return base::Unimplemented(
        "model", fmt::format("config.json: peft_type = {} says that this is an adapter (LoRA), which is not "
                             "supported yet; use config.json of its base model{}",
                             base::Printable(adapter->dump()),
                             named ? " " + base::Printable(base_model->get<std::string>()) : ""));
  }
  if (HasAttentionAlone(json)) return absl::OkStatus();
  if (const auto type = json.find("model_type"); type != json.end() && type->is_string()) {
    for (const OtherTypes& other : KnownOtherTypes()) {
      if (std::ranges::find(other.types, type->get_ref<const std::string&>()) != other.types.end())
        return OtherNotYet(path + "model_type", *type, other.feature);
    }
  }
  if (const auto both = json.find("is_encoder_decoder"); both != json.end() && *both == true)
    return OtherNotYet(path + "is_encoder_decoder", *both, "is an encoder with a decoder");
  for (const auto& [key, value] : json.items()) {
    for (const auto& [name, feature] : kOtherFields) {
      if (key.starts_with(name) && !value.is_null())
        return OtherNotYet(path + base::Printable(key), value, feature);
    }
  }
  const auto inner = json.find("text_config");
  if (inner == json.end() || !inner->is_object() || !path.empty()) return absl::OkStatus();
  return CheckDecoder(*inner, "text_config.");
}

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

std::vector<std::string> FamilyTypes() {
  std::vector<std::string> types;
  for (const ModelFamily& family : ModelFamilies()) types.emplace_back(family.type);
  return types;
}

std::string Joined(const std::vector<std::string_view>& names) {
  return base::ChoiceText(std::vector<std::string>(names.begin(), names.end()));
}

// Accepts the head of the type's language model: next-token logits.
absl::Status CheckArchitectures(const Json& json, const ModelFamily& family) {
  const auto found = json.find("architectures");
  if (found == json.end() || found->is_null()) return absl::OkStatus();
  const auto is_name = [](const Json& name) { return name.is_string(); };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_name))
    return ConfigContradiction("architectures must be a list of names");
  for (const Json& name : *found) {
    if (std::ranges::find(family.architectures, name.get_ref<const std::string&>()) ==
        family.architectures.end()) {
      return ConfigNotYet(
          "architectures", name,
          fmt::format("use {}, a language model that predicts the next token", Joined(family.architectures)));
    }
  }
  return absl::OkStatus();
}

// Says how the weights of the file are stored: ", gptq, 4 bits".
std::string QuantizationOf(const Json& quantized) {
  std::string text;
  if (!quantized.is_object()) return text;
  for (const char* name : {"quant_method", "quantization_type", "fmt"}) {
    const auto found = quantized.find(name);
    if (found != quantized.end() && found->is_string())
      text += ", " + base::Printable(found->get<std::string>());
  }
  for (const char* name : {"bits", "w_bit"}) {
    const auto found = quantized.find(name);
    if (found != quantized.end() && found->is_number()) text += fmt::format(", {} bits", found->dump());
  }
  return text;
}

absl::Status CheckNotQuantized(const Json& json) {
  for (const char* name : {"quantization_config", "compression_config"}) {
    const auto quantized = json.find(name);
    if (quantized == json.end() || quantized->is_null()) continue;
    return base::Unimplemented(
        "model", fmt::format("config.json: {} says that the weights are quantized{}, which is not supported "
                             "yet; remove it, or use the file of the model that was quantized, to train in "
                             "the precision asked for",
                             name, QuantizationOf(*quantized)));
  }
  return absl::OkStatus();
}

// The object that describes the language model, the file or its text_config, and what reads it.
struct TextPart {
  const Json* json = nullptr;
  const ModelFamily* family = nullptr;
};

absl::StatusOr<TextPart> TextPartOf(const Json& json, const ModelFamily& family) {
  if (family.text_types.empty()) return TextPart{&json, &family};
  const auto text = json.find("text_config");
  if (text == json.end() || !text->is_object()) {
    return ConfigContradiction(
        fmt::format("text_config is missing; model_type {} needs it, with the fields of {}", family.type,
                    Joined(family.text_types)));
  }
  std::string_view name = family.text_types.front();
  if (const auto type = text->find("model_type"); type != text->end()) {
    const auto known = std::ranges::find_if(
        family.text_types, [&](std::string_view known) { return *type == std::string(known); });
    if (known == family.text_types.end())
      return ConfigNotYet("text_config.model_type", *type, fmt::format("use {}", Joined(family.text_types)));
    name = *known;
  }
  AUTOCFG_RETURN_IF_ERROR(CheckNotQuantized(*text));
  return TextPart{&*text, FindFamily(name)};
}

}  // namespace

bool IsHuggingFaceConfig(const Json& json) {
  if (!json.is_object()) return false;
  if (json.contains("model_type") || json.contains("peft_type")) return true;
  // Without a model_type, fields of Hugging Face tell the file from one of our own.
  return !json.contains("layers") &&
         (json.contains("architectures") || json.contains("num_hidden_layers") || json.contains("n_layer"));
}

std::string OtherMeaningOfWeights(const Json& json) {
  struct Meaning {
    std::string_view type, what;
  };
  constexpr std::string_view kNorms = "norms of {}'s weights store what is added to 1";
  constexpr std::string_view kRotary = "{}'s weights are for rotary embeddings of neighbouring dims";
  constexpr Meaning kMeanings[] = {{"gemma", kNorms},    {"nemotron", kNorms},  {"cohere", kRotary},
                                   {"cohere2", kRotary}, {"ernie4_5", kRotary}, {"glm", kRotary},
                                   {"glm4", kRotary},    {"helium", kRotary}};
  if (!json.is_object() || !json.contains("model_type")) return "";
  for (const auto& [type, what] : kMeanings) {
    if (json["model_type"] == type) return fmt::format(fmt::runtime(what), type);
  }
  return "";
}

absl::StatusOr<ModelSpec> ImportHuggingFace(const Json& json, std::vector<std::string>* notes) {
  if (!json.is_object()) return ConfigContradiction("it must be a JSON object");
  AUTOCFG_RETURN_IF_ERROR(CheckDense(json, ""));
  if (json.size() > kMaxFields)
    return ConfigContradiction(fmt::format("it has {} fields; at most {} are read", json.size(), kMaxFields));
  AUTOCFG_RETURN_IF_ERROR(CheckDecoder(json, ""));
  AUTOCFG_RETURN_IF_ERROR(CheckNotQuantized(json));
  const auto type = json.find("model_type");
  if (type == json.end())
    return ConfigContradiction(
        "model_type is missing; give one that autocfg models lists, such as gpt2 or llama");
  if (!type->is_string())
    return ConfigContradiction(fmt::format("model_type is {}; it must be a string, such as gpt2 or llama",
                                           base::Printable(type->dump())));
  const ModelFamily* family = FindFamily(type->get_ref<const std::string&>());
  if (family == nullptr) {
    return ConfigNotYet(
        "model_type", *type,
        fmt::format("use one that autocfg models lists, or describe the model in a file of our own{}",
                    base::DidYouMeanOfListed(type->get_ref<const std::string&>(), FamilyTypes())));
  }
  AUTOCFG_ASSIGN_OR_RETURN(const TextPart text, TextPartOf(json, *family));
  ConfigReader reader(*text.json);
  ModelSpec model;
  text.family->read(reader, model);
  AUTOCFG_RETURN_IF_ERROR(reader.Finish());
  AUTOCFG_RETURN_IF_ERROR(CheckArchitectures(json, *family));
  if (const auto name = json.find("_name_or_path"); name != json.end() && name->is_string())
    model.name = name->get<std::string>();
  if (model.name.empty()) model.name = type->get<std::string>();
  FillDefaults(model);
  AUTOCFG_RETURN_IF_ERROR(Validate(model));
  if (notes == nullptr) return model;
  if (!family->text_types.empty())
    notes->push_back(fmt::format("of the {} in config.json the text part alone is taken", family->type));
  if (!model.undescribed.empty()) {
    notes->push_back(
        fmt::format("left out of the {} in config.json, since it does not affect the prediction: {}",
                    family->type, model.undescribed));
  }
  return model;
}

}  // namespace autocfg
