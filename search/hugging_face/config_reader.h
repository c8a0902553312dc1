// Reads the fields of a Hugging Face config.json. Not thread-safe; keeps no state beyond its object.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/json_reader.h"
#include "nlohmann/json.hpp"
#include "search/plan/model_spec.h"

namespace autocfg {

// Unimplemented: a field of the file has a value that "is not supported yet".
absl::Status ConfigNotYet(std::string_view field, const nlohmann::ordered_json& value,
                          std::string_view instead);

// InvalidArgument: the file contradicts itself or the format.
absl::Status ConfigContradiction(std::string_view problem);

// Sliding windows of a model type, where the file does not say otherwise.
struct WindowDefaults {
  std::int64_t window = 0;  // 0: none
  bool used = true;         // false: only with use_sliding_window
  // Whether a layer, counted from 0, has the window; empty: all have.
  std::function<bool(std::int64_t)> windowed = {};
  double rope_theta = 0;  // of these layers; 0: the model's
};

// Reads fields into a ModelSpec. A null value counts as absent, as in Python, but IsNull tells. Keeps the
// first error for Finish.
class ConfigReader {
 public:
  explicit ConfigReader(const nlohmann::ordered_json& json);

  // Each leaves `value` unchanged if the field is absent. Of several names, the first that is present counts.
  void Size(std::string_view name, std::int64_t& value) { fields_.Size(name, value); }
  void Size(std::initializer_list<std::string_view> names, std::int64_t& value);
  void Number(std::string_view name, double& value) { fields_.Number(name, value); }
  void Bool(std::string_view name, bool& value) { fields_.Bool(name, value); }

  void Require(std::string_view name) { fields_.Require(name); }
  // Requires one of the names.
  void Require(std::initializer_list<std::string_view> names);

  const nlohmann::ordered_json* Find(std::string_view name) { return fields_.Find(name); }
  bool IsNull(std::string_view name) const;  // present, and null
  void Fail(absl::Status status) { fields_.Fail(std::move(status)); }

  // Requires a field, if present, to have the only value that is known.
  void Only(std::string_view name, const nlohmann::ordered_json& wanted, std::string_view instead);

  // Reads an activation function by its name in transformers.
  void Function(std::string_view name, bool gated, Activation& activation);

  // Reads rope_theta, partial_rotary_factor and the objects rope_scaling and rope_parameters. Read after
  // max_seq_len.
  void Rope(ModelSpec& model, bool yarn_is_longrope = false);

  // Reads sliding_window, use_sliding_window, attention_chunk_size, layer_types, and what rope_parameters has
  // for sliding_attention, into kinds of layers. A window of at least max_seq_len tokens changes nothing and
  // is left out. Read after layers, max_seq_len and Rope. Returns which layers have windows, those that are
  // left out too; all if the file contradicts itself.
  std::vector<bool> Windows(const WindowDefaults& defaults, ModelSpec& model);

  // Returns the first error. Unknown fields are ignored.
  absl::Status Finish();

 private:
  void RopeObject(const std::string& name, const nlohmann::ordered_json& rope, bool yarn_is_longrope,
                  ModelSpec& model);
  std::vector<std::string> LayerTypes(const ModelSpec& model);
  double WindowedTheta(double theta);
  void ScalingParameters(const std::string& name, const nlohmann::ordered_json& rope, ModelSpec& model);

  const nlohmann::ordered_json given_;  // without nulls
  const nlohmann::ordered_json& json_;
  base::FieldReader fields_;
};

}  // namespace autocfg
