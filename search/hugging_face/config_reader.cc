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
constexpr std::int64_t kMostListedLayers = 100'000;  // Validate accepts no more

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
        Known{"relu", false, Activation::kRelu}, Known{"silu", true, Activation::kSwiGlu},
        Known{"swish", true, Activation::kSwiGlu}, Known{"gelu_new", true, Activation::kGeGlu},
        Known{"gelu_pytorch_tanh", true, Activation::kGeGlu}}) {
    if (known.name == text && known.gated == gated) {
      activation = known.activation;
      return;
    }
  }
  fields_.Fail(ConfigNotYet(
      name, text,
      gated ? "use silu, gelu_new or gelu_pytorch_tanh" : "use gelu_new, gelu_pytorch_tanh, gelu or relu"));
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
  // Gemma 3 has one object for each kind of layer. Those with windows differ in frequencies only.
  if (const auto full = rope.find("full_attention"); full != rope.end())
    return RopeObject(name + ".full_attention", *full, yarn_is_longrope, model);
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

void ConfigReader::Windows(const WindowDefaults& defaults, ModelSpec& model) {
  std::int64_t window = IsNull("sliding_window") ? 0 : defaults.window;
  bool used = defaults.used;
  fields_.Size("sliding_window", window);
  fields_.Bool("use_sliding_window", used);
  const Json* types = fields_.Find("layer_types");
  std::vector<bool> listed;
  if (types != nullptr) {
    if (!types->is_array())
      return fields_.Fail(ConfigContradiction("layer_types must be a list with a name for each layer"));
    for (const Json& type : *types) {
      if (type != "sliding_attention" && type != "full_attention")
        return fields_.Fail(ConfigNotYet("layer_types", type, "use sliding_attention or full_attention"));
      listed.push_back(type == "sliding_attention");
    }
    if (static_cast<std::int64_t>(listed.size()) != model.layers) {
      return fields_.Fail(ConfigContradiction(fmt::format(
          "layer_types has {} names for {} layers; give one for each", listed.size(), model.layers)));
    }
  }
  if (window == 0 || !used || (window >= model.max_seq_len && !defaults.keep_idle)) return;
  const auto is_full = [&](std::int64_t layer) {
    if (types != nullptr) return !listed[static_cast<std::size_t>(layer)];
    return defaults.windowed && !defaults.windowed(layer);
  };
  const std::int64_t layers = std::min(model.layers, kMostListedLayers);
  std::int64_t full = 0;
  for (std::int64_t i = 0; i < layers; ++i) full += is_full(i) ? 1 : 0;
  if (full == layers) return;
  model.sliding_window = window;
  model.sliding_window_pattern = IntervalOf(layers, is_full);
  if (model.sliding_window_pattern < 0) {
    fields_.Fail(
        ConfigNotYet("sliding_window", window,
                     fmt::format("{} of {} layers have it: only all layers, or all but every n-th, may have "
                                 "a window; remove it to attend to the whole sequence",
                                 layers - full, layers)));
  }
}

absl::Status ConfigReader::Finish() {
  for (const auto& [key, value] : given_.items()) fields_.Find(key);
  return fields_.Finish();
}

std::int64_t IntervalOf(std::int64_t layers, const std::function<bool(std::int64_t)>& marked) {
  std::int64_t first = 0;
  while (first < layers && !marked(first)) ++first;
  if (first == layers) return 0;
  const std::int64_t interval = first + 1;
  for (std::int64_t i = 0; i < layers; ++i) {
    if (marked(i) != ((i + 1) % interval == 0)) return -1;
  }
  return interval == 1 ? -1 : interval;
}

}  // namespace autocfg
