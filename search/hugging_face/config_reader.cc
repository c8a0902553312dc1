#include "search/hugging_face/config_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json_fields.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kConfigSubject = "model";
constexpr std::string_view kConfigFile = "config.json";
// What layer_types calls kinds of layers.
constexpr const char *kFullLayer = "full_attention", *kWindowedLayer = "sliding_attention",
                     *kChunkedLayer = "chunked_attention";

Json WithoutNulls(const Json& json) {
  Json given = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (!value.is_null()) given[key] = value;
  }
  return given;
}

// The scaling that a rope object names; kNone if it has none that is known.
RopeScaling ScalingOf(const Json& rope, bool yarn_is_longrope) {
  RopeScaling scaling = RopeScaling::kNone;
  for (const char* key : {"rope_type", "type"}) {
    const auto type = rope.find(key);
    if (type == rope.end() || !type->is_string()) continue;
    const auto found = std::ranges::find(kRopeScalingNames, type->get<std::string>());
    if (found != kRopeScalingNames.end())
      scaling = static_cast<RopeScaling>(found - kRopeScalingNames.begin());
    // transformers takes both older names of Phi-3's scaling as longrope.
    if (*type == "su" || (yarn_is_longrope && scaling == RopeScaling::kYarn))
      scaling = RopeScaling::kLongRope;
  }
  return scaling;
}

}  // namespace

absl::Status ConfigNotYet(std::string_view field, const Json& value, std::string_view instead) {
  return base::Unimplemented(kConfigSubject, fmt::format("{}: {} = {} is not supported yet; {}", kConfigFile,
                                                         field, base::Printable(value.dump()), instead));
}

absl::Status ConfigContradiction(std::string_view problem) {
  return base::InvalidArgument(kConfigSubject, fmt::format("{}: {}", kConfigFile, problem));
}

ConfigReader::ConfigReader(const Json& json)
    : given_(WithoutNulls(json)), json_(json), fields_(kConfigSubject, given_, kConfigFile) {}

void ConfigReader::Size(std::initializer_list<std::string_view> names, std::int64_t& value) {
  for (const std::string_view name : names) {
    if (fields_.Find(name) != nullptr) return fields_.Size(name, value);
  }
}

void ConfigReader::Require(std::initializer_list<std::string_view> names) {
  if (std::none_of(names.begin(), names.end(),
                   [this](std::string_view name) { return fields_.Find(name) != nullptr; }))
    fields_.Require(*names.begin());
}

bool ConfigReader::IsNull(std::string_view name) const {
  const auto found = json_.find(std::string(name));
  return found != json_.end() && found->is_null();
}

void ConfigReader::Only(std::string_view name, const Json& wanted, std::string_view instead) {
  const Json* value = fields_.Find(name);
  if (value != nullptr && *value != wanted) fields_.Fail(ConfigNotYet(name, *value, instead));
}

void ConfigReader::Function(std::string_view name, bool gated, Activation& activation) {
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
        Known{"gelu_fast", false, Activation::kGelu}, Known{"gelu", false, Activation::kGeluErf},
        Known{"relu", false, Activation::kRelu}, Known{"relu2", false, Activation::kSquaredRelu},
        Known{"silu", true, Activation::kSwiGlu}, Known{"swish", true, Activation::kSwiGlu},
        Known{"gelu_new", true, Activation::kGeGlu}, Known{"gelu_pytorch_tanh", true, Activation::kGeGlu}}) {
    if (known.name == text && known.gated == gated) {
      activation = known.activation;
      return;
    }
  }
  fields_.Fail(ConfigNotYet(name, text,
                            gated ? "use silu, gelu_new or gelu_pytorch_tanh"
                                  : "use gelu_new, gelu_pytorch_tanh, gelu, relu or relu2"));
}

// Newer files store rope_theta and partial_rotary_factor in rope_parameters.
void ConfigReader::Rope(ModelSpec& model, bool yarn_is_longrope) {
  fields_.Number("rope_theta", model.rope_theta);
  fields_.Number("partial_rotary_factor", model.partial_rotary_factor);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (const Json* rope = fields_.Find(name); rope != nullptr)
      RopeObject(name, *rope, yarn_is_longrope, model);
  }
  RopeScalingParameters& parameters = model.rope_scaling_parameters;
  std::int64_t& original = parameters.original_max_position_embeddings;
  if (model.rope_scaling == RopeScaling::kLongRope && original == 0)  // Phi-3 has it beside the object
    fields_.Size("original_max_position_embeddings", original);
  if (model.rope_scaling == RopeScaling::kYarn && parameters.factor == 0 && original > 0)
    parameters.factor = static_cast<double>(model.max_seq_len) / static_cast<double>(original);
}

void ConfigReader::ScalingParameters(const std::string& name, const Json& rope, ModelSpec& model) {
  const Json given = WithoutNulls(rope);
  base::FieldReader reader(kConfigSubject, given, fmt::format("{}: {}", kConfigFile, name));
  for (const auto& [key, value] : given.items()) reader.Find(key);  // as transformers, ignores other fields
  for (const RopeScalingField& field : RopeScalingFields()) {
    if (!Has(model.rope_scaling, field)) continue;
    if (const auto value = base::ReadField(reader, field); value)
      field.Set(model.rope_scaling_parameters, *value);
  }
  if (absl::Status status = reader.Finish(); !status.ok()) fields_.Fail(std::move(status));
}

void ConfigReader::RopeObject(const std::string& name, const Json& rope, bool yarn_is_longrope,
                              ModelSpec& model) {
  if (!rope.is_object()) return fields_.Fail(ConfigContradiction(fmt::format("{} must be an object", name)));
  // Gemma 3 has one object for each kind of layer; Windows reads that of layers with windows.
  if (const auto full = rope.find(kFullLayer); full != rope.end()) {
    for (const auto& [key, value] : rope.items()) {
      if (key == kFullLayer || key == kWindowedLayer) continue;
      fields_.Fail(ConfigNotYet(fmt::format("{}.{}", name, base::Printable(key)), value,
                                fmt::format("give {} and {}", kFullLayer, kWindowedLayer)));
    }
    return RopeObject(fmt::format("{}.{}", name, kFullLayer), *full, yarn_is_longrope, model);
  }
  model.rope_scaling = ScalingOf(rope, yarn_is_longrope);
  if (model.rope_scaling != RopeScaling::kNone) ScalingParameters(name, rope, model);
  for (const auto& [key, value] : rope.items()) {
    if (value.is_null()) continue;
    if (key == "rope_theta" && value.is_number() && value.get<double>() > 0) {
      model.rope_theta = value.get<double>();
    } else if (key == "partial_rotary_factor" && value.is_number()) {
      model.partial_rotary_factor = value.get<double>();
    } else if ((key == "rope_type" || key == "type") && value == "default") {
      continue;
    } else if (model.rope_scaling == RopeScaling::kNone) {
      fields_.Fail(ConfigNotYet(fmt::format("{}.{}", name, base::Printable(key)), value,
                                "remove it to train with the frequencies of rope_theta alone"));
    }
  }
}

// Returns the name of each layer's type; nothing if the file names none, or they are wrong.
std::vector<std::string> ConfigReader::LayerTypes(const ModelSpec& model) {
  const Json* types = fields_.Find("layer_types");
  std::vector<std::string> names;
  if (types == nullptr) return names;
  if (!types->is_array()) {
    fields_.Fail(ConfigContradiction("layer_types must be a list with a name for each layer"));
    return names;
  }
  for (const Json& type : *types) {
    if (type == "attention") {  // of Granite
      names.emplace_back(kFullLayer);
      continue;
    }
    if (type != kWindowedLayer && type != kFullLayer && type != kChunkedLayer) {
      fields_.Fail(ConfigNotYet("layer_types", type,
                                fmt::format("use {}, {} or {}", kWindowedLayer, kFullLayer, kChunkedLayer)));
      return {};
    }
    names.push_back(type.get<std::string>());
  }
  if (static_cast<std::int64_t>(names.size()) != model.layers) {
    fields_.Fail(ConfigContradiction(fmt::format("layer_types has {} names for {} layers; give one for each",
                                                 names.size(), model.layers)));
    return {};
  }
  return names;
}

// Returns the base of the frequencies of layers with windows: that of rope_parameters, else `theta`.
double ConfigReader::WindowedTheta(double theta) {
  const Json* rope = fields_.Find("rope_parameters");
  if (rope == nullptr || !rope->is_object() || !rope->contains(kWindowedLayer)) return theta;
  const Json& local = (*rope)[kWindowedLayer];
  const std::string name = fmt::format("rope_parameters.{}", kWindowedLayer);
  if (!local.is_object()) {
    fields_.Fail(ConfigContradiction(name + " must be an object"));
    return theta;
  }
  for (const auto& [key, value] : local.items()) {
    if (value.is_null() || ((key == "rope_type" || key == "type") && value == "default")) continue;
    if (key == "rope_theta" && value.is_number() && value.get<double>() > 0) {
      theta = value.get<double>();
    } else {
      fields_.Fail(ConfigNotYet(fmt::format("{}.{}", name, base::Printable(key)), value,
                                "remove it to train these layers with the frequencies of rope_theta alone"));
    }
  }
  return theta;
}

std::vector<bool> ConfigReader::Windows(const WindowDefaults& defaults, ModelSpec& model) {
  std::int64_t window = IsNull("sliding_window") ? 0 : defaults.window, chunk = 0;
  bool used = defaults.used;
  fields_.Size("sliding_window", window);
  fields_.Bool("use_sliding_window", used);
  fields_.Size("attention_chunk_size", chunk);
  if (!used || window >= model.max_seq_len) window = 0;
  const double theta = WindowedTheta(defaults.rope_theta);
  const std::vector<std::string> types = LayerTypes(model);
  if (chunk == 0 && std::ranges::find(types, kChunkedLayer) != types.end()) {
    fields_.Fail(ConfigContradiction(
        fmt::format("layer_types has {}, but attention_chunk_size is missing; add it", kChunkedLayer)));
  }
  std::vector<bool> windowed(
      static_cast<std::size_t>(std::clamp<double>(static_cast<double>(model.layers), 0, kMaxLayers)), true);
  const auto type_of = [&](std::int64_t layer) -> std::string_view {
    if (!types.empty()) return types[static_cast<std::size_t>(layer)];
    return defaults.windowed && !defaults.windowed(layer) ? kFullLayer : kWindowedLayer;
  };
  ChangeKinds(model, [&](std::int64_t layer, LayerRun& kind) {
    const std::string_view type = type_of(layer);
    if (type == kChunkedLayer && chunk < model.max_seq_len) kind.chunk = chunk;
    windowed[static_cast<std::size_t>(layer)] = type == kWindowedLayer;
    if (type != kWindowedLayer) return;
    kind.window = window;
    if (kind.rotary) kind.rope_theta = theta;
  });
  return windowed;
}

absl::Status ConfigReader::Finish() {
  for (const auto& [key, value] : given_.items()) fields_.Find(key);
  return fields_.Finish();
}

}  // namespace autocfg
