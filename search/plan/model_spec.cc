#include "search/plan/model_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/status_macros.h"
#include "base/subject.h"
#include "fmt/format.h"
#include "search/ops/op_desc.h"

namespace autocfg {
namespace {

constexpr std::int64_t kMostHidden = std::numeric_limits<std::int64_t>::max() / 4;
constexpr double kMaxParameters = 1e15;
constexpr std::size_t kMaxTextBytes = 200;
constexpr double kWholeDims = 1e-6;  // a share of dims is written with few digits: 0.33333333 of 96

absl::Status Invalid(std::string_view field, std::string_view problem) {
  return base::InvalidArgument("model", fmt::format("{} {}", field, problem));
}

// Returns the number of weights in one layer's matrix products.
template <typename T>
T LayerMatmulWeights(const ModelSpec& model) {
  const T hidden = static_cast<T>(model.hidden);
  const T query = static_cast<T>(model.heads) * static_cast<T>(model.head_dim);
  const T key_value = static_cast<T>(model.kv_heads) * static_cast<T>(model.head_dim);
  const T ffn = static_cast<T>(model.ffn_hidden);
  return hidden * (query + 2 * key_value) + query * hidden +
         (IsGated(model.activation) ? 3 : 2) * hidden * ffn;
}

int NormsOfALayer(const ModelSpec& model) {
  if (model.shared_norm) return 1;
  return model.norm_placement == NormPlacement::kSandwich ? 4 : 2;
}

template <typename T>
T Parameters(const ModelSpec& model) {
  const T hidden = static_cast<T>(model.hidden);
  const T head_dim = static_cast<T>(model.head_dim);
  const T heads = static_cast<T>(model.heads);
  const T kv_heads = static_cast<T>(model.kv_heads);
  const T norm = (HasBias(model.norm) ? 2 : 1) * hidden;
  T layer = LayerMatmulWeights<T>(model) + static_cast<T>(NormsOfALayer(model)) * norm;
  if (model.qkv_bias) layer += (heads + 2 * kv_heads) * head_dim;
  if (model.attention_out_bias) layer += hidden;
  if (model.mlp_bias)
    layer += (IsGated(model.activation) ? 2 : 1) * static_cast<T>(model.ffn_hidden) + hidden;
  if (model.qk_norm == QkNorm::kHead) layer += 2 * head_dim;
  if (model.qk_norm == QkNorm::kFull) layer += (heads + kv_heads) * head_dim;
  T total = static_cast<T>(model.layers) * layer + norm + static_cast<T>(model.vocab) * hidden;
  if (!model.tied_embeddings) total += static_cast<T>(model.vocab) * hidden;
  if (model.position == Position::kLearned) total += static_cast<T>(model.max_seq_len) * hidden;
  if (model.embedding_norm) total += norm;
  return total;
}

// Checks a size or a number against the bounds of its row.
absl::Status CheckBounds(const ModelField& field, const ModelSpec& model) {
  const std::optional<base::FieldValue> value = field.Get(model);
  if (!value) return absl::OkStatus();  // other fields say it
  if (const auto* size = std::get_if<std::int64_t>(&*value)) {
    if (static_cast<double>(*size) >= field.least && static_cast<double>(*size) <= field.most)
      return absl::OkStatus();
    return Invalid(field.name,
                   fmt::format("is {}; it must be from {:.0f} to {:.0f}", *size, field.least, field.most));
  }
  const double number = std::get<double>(*value);
  if (field.IsDefault(model)) return absl::OkStatus();
  const bool has_zero = !field.Get(ModelSpec());  // whose default is no number
  if (!std::isfinite(number) || (has_zero ? number < 0 : number <= 0))
    return Invalid(field.name, fmt::format("is {}; it must be a positive number", number));
  if (number >= field.least && number <= field.most) return absl::OkStatus();
  return Invalid(field.name,
                 fmt::format("is {:g}; it must be from {:g} to {:g}", number, field.least, field.most));
}

absl::Status CheckBounds(base::FieldType type, const ModelSpec& model) {
  for (const ModelField& field : ModelFields()) {
    if (field.type == type) AUTOCFG_RETURN_IF_ERROR(CheckBounds(field, model));
  }
  return absl::OkStatus();
}

// Checks a text for people.
absl::Status CheckText(std::string_view field, const std::string& text) {
  if (text.size() > kMaxTextBytes)
    return Invalid(field, fmt::format("has {} bytes; at most {} are allowed", text.size(), kMaxTextBytes));
  if (std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }))
    return Invalid(field, "has a control character, such as a line break; leave it out");
  return absl::OkStatus();
}

// Parts that contradict each other.
absl::Status CheckParts(const ModelSpec& model) {
  const auto needs_rope = [&model](std::string_view field, std::string_view value) {
    return Invalid(field, fmt::format("is {}, but position is {}; leave it out or set position to rope",
                                      value, Name(model.position)));
  };
  if (model.rope_scaling != RopeScaling::kNone && model.position != Position::kRope)
    return needs_rope("rope_scaling", Name(model.rope_scaling));
  AUTOCFG_RETURN_IF_ERROR(Validate(model.rope_scaling, model.rope_scaling_parameters, RotaryDims(model)));
  if (model.position == Position::kRope) {
    const double dims = model.partial_rotary_factor * static_cast<double>(model.head_dim);
    const std::int64_t whole = RotaryDims(model);
    if (whole < 2 || whole > model.head_dim || whole % 2 != 0 ||
        std::abs(dims - static_cast<double>(whole)) > kWholeDims * static_cast<double>(model.head_dim)) {
      if (model.partial_rotary_factor == 1)
        return Invalid("head_dim", fmt::format("is {}; rotary positions need an even one", model.head_dim));
      return Invalid(
          "partial_rotary_factor",
          fmt::format("is {}, which rotates {:.6g} of the {} dims of a head; give one that rotates a "
                      "whole and even number of them, at least 2",
                      model.partial_rotary_factor, dims, model.head_dim));
    }
    if (model.rope_scaling == RopeScaling::kYarn && model.rope_theta == 1)
      return Invalid("rope_theta", "is 1; with rope_scaling yarn it must be above 1");
  } else {
    if (model.partial_rotary_factor != 1)
      return needs_rope("partial_rotary_factor", fmt::format("{}", model.partial_rotary_factor));
  }
  if (model.shared_norm && !model.parallel_residual) {
    return Invalid("shared_norm",
                   "is true, but parallel_residual is false; only parallel attention and "
                   "feed-forward can share a norm");
  }
  if (model.parallel_residual && model.norm_placement != NormPlacement::kPre) {
    return Invalid("parallel_residual",
                   fmt::format("is true, but norm_placement is {}; set norm_placement to pre",
                               Name(model.norm_placement)));
  }
  return ValidateKinds(model);
}

}  // namespace

void FillDefaults(ModelSpec& model, std::int64_t seq_len) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0 && model.heads > 0 && model.hidden % model.heads == 0) {
    model.head_dim = model.hidden / model.heads;
  }
  if (model.ffn_hidden == 0 && model.hidden > 0 && model.hidden <= kMostHidden)
    model.ffn_hidden = 4 * model.hidden;
  if (model.max_seq_len == 0) model.max_seq_len = seq_len != 0 ? seq_len : 1024;
}

void SetBiases(ModelSpec& model, bool present) {
  model.qkv_bias = present;
  model.attention_out_bias = present;
  model.mlp_bias = present;
}

std::int64_t RotaryDims(const ModelSpec& model) {
  return std::llround(model.partial_rotary_factor * static_cast<double>(model.head_dim));
}

bool NamesRopeScalingAlone(const ModelSpec& model) {
  return model.rope_scaling != RopeScaling::kNone && model.rope_scaling_parameters == RopeScalingParameters{};
}

absl::Status Validate(const ModelSpec& model) {
  if (model.head_dim == 0 && model.hidden > 0 && model.heads > 0 && model.hidden % model.heads != 0) {
    return Invalid("heads", fmt::format("= {} does not divide hidden = {}; change one or set head_dim",
                                        model.heads, model.hidden));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckBounds(base::FieldType::kSize, model));
  if (model.heads % model.kv_heads != 0) {
    return Invalid("kv_heads", fmt::format("= {} does not divide heads = {}; give a divisor of heads",
                                           model.kv_heads, model.heads));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckBounds(base::FieldType::kNumber, model));
  AUTOCFG_RETURN_IF_ERROR(CheckText("name", model.name));
  AUTOCFG_RETURN_IF_ERROR(CheckText("undescribed", model.undescribed));
  AUTOCFG_RETURN_IF_ERROR(CheckParts(model));
  if (const double parameters = Parameters<double>(model); parameters > kMaxParameters) {
    return base::InvalidArgument(
        "model", fmt::format("its sizes make {:.3g} parameters; at most {:.0e} are allowed", parameters,
                             kMaxParameters));
  }
  return absl::OkStatus();
}

std::int64_t PaddedVocab(const ModelSpec& model, std::int64_t tp) {
  const std::int64_t multiple = tp * model.vocab_multiple;
  return (model.vocab + multiple - 1) / multiple * multiple;
}

std::int64_t ParameterCount(const ModelSpec& model) { return Parameters<std::int64_t>(model); }

double CountedKeys(const ModelSpec& model, double seq_len) {
  double keys = 0;
  for (const LayerRun& run : RunsOf(model)) {
    double of_layer = seq_len;
    if (run.chunk != 0) of_layer = std::min(seq_len, static_cast<double>(run.chunk));
    if (run.window != 0) of_layer = 2 * AttendedPairs(seq_len, run.window) / (seq_len + 1);
    keys += static_cast<double>(run.layers) * of_layer;
  }
  return keys;
}

double ModelFlops(const ModelSpec& model, double tokens, double seq_len) {
  const double width = static_cast<double>(model.heads) * static_cast<double>(model.head_dim);
  const double matmuls = 6 * static_cast<double>(model.layers) * LayerMatmulWeights<double>(model);
  const double attention = 12 * CountedKeys(model, seq_len) * width;
  const double output = 6 * static_cast<double>(model.hidden) * static_cast<double>(model.vocab);
  return tokens * (matmuls + attention + output);
}

}  // namespace autocfg
