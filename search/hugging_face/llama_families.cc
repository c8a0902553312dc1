// Llama and its relatives. Defaults are those of the configuration classes of transformers; InternLM's are
// those of the classes that its checkpoints carry.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "search/hugging_face/model_families.h"

namespace autocfg {
namespace {

constexpr double kSameScale = 1e-6;  // files write 1 / sqrt(head_dim) with few digits

// Of Qwen: only with use_sliding_window, and only in the layers from max_window_layers on.
void ReadQwenWindows(ConfigReader& reader, ModelSpec& model) {
  std::int64_t first = 28;
  if (const nlohmann::ordered_json* given = reader.Find("max_window_layers");
      given == nullptr || *given != 0) {
    reader.Size("max_window_layers", first);
  } else {
    first = 0;
  }
  reader.Windows(
      {.window = 4096, .used = false, .windowed = [first](std::int64_t layer) { return layer >= first; }},
      model);
}

// Returns which layers of SmolLM3, counted from 0, have rotary positions: all but every n-th one, unless a
// list has a 0 or 1 for each.
std::function<bool(std::int64_t)> ReadRotaryLayers(ConfigReader& reader, const ModelSpec& model) {
  std::int64_t interval = 4;
  reader.Size("no_rope_layer_interval", interval);
  const nlohmann::ordered_json* list = reader.Find("no_rope_layers");
  if (list == nullptr) return [interval](std::int64_t layer) { return (layer + 1) % interval != 0; };
  if (!list->is_array() || static_cast<std::int64_t>(list->size()) < model.layers) {
    reader.Fail(ConfigContradiction("no_rope_layers must be a list with 0 or 1 for each layer"));
    return [](std::int64_t /*layer*/) { return true; };
  }
  return [list](std::int64_t layer) { return (*list)[static_cast<std::size_t>(layer)] != 0; };
}

}  // namespace

void AddUndescribed(std::string_view part, ModelSpec& model) {
  if (!model.undescribed.empty()) model.undescribed += ", ";
  model.undescribed += part;
}

void SetPartsOfLlama(ModelSpec& model) {
  model.activation = Activation::kSwiGlu;
  model.norm = Norm::kRmsNorm;
  model.position = Position::kRope;
  SetBiases(model, false);
}

void ReadAttentionBias(std::string_view name, ConfigReader& reader, ModelSpec& model) {
  bool bias = model.qkv_bias;
  reader.Bool(name, bias);
  model.qkv_bias = bias;
  model.attention_out_bias = bias;
}

void SetAttentionScale(double scale, ModelSpec& model) {
  const std::int64_t head_dim =
      model.head_dim != 0 ? model.head_dim : model.hidden / std::max<std::int64_t>(1, model.heads);
  const double usual = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, head_dim)));
  model.attention_scale = std::abs(scale / usual - 1) < kSameScale ? 0 : scale;
}

void ReadLlamaSizes(const LlamaDefaults& defaults, ConfigReader& reader, ModelSpec& model) {
  SetPartsOfLlama(model);
  for (const std::string_view name : {"num_hidden_layers", "hidden_size"}) reader.Require(name);
  reader.Size("num_hidden_layers", model.layers);
  reader.Size("hidden_size", model.hidden);
  reader.Size("num_attention_heads", model.heads);
  model.kv_heads = reader.IsNull("num_key_value_heads") ? 0 : defaults.kv_heads;
  reader.Size("num_key_value_heads", model.kv_heads);
  model.head_dim = defaults.head_dim;
  reader.Size("head_dim", model.head_dim);
  reader.Size("intermediate_size", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = defaults.max_seq_len;
  reader.Size("max_position_embeddings", model.max_seq_len);
  model.norm_eps = defaults.norm_eps;
  reader.Number("rms_norm_eps", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  model.tied_embeddings = defaults.tied;
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  model.rope_theta = defaults.rope_theta;
  reader.Rope(model, defaults.yarn_is_longrope);
}

void ReadNamedSizes(const LlamaDefaults& defaults, ConfigReader& reader, ModelSpec& model) {
  for (const std::string_view name :
       {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"}) {
    reader.Require(name);
  }
  ReadLlamaSizes(defaults, reader, model);
  if (IsGated(defaults.activation)) return reader.Function("hidden_act", true, model.activation);
  model.activation = defaults.activation;
  if (const nlohmann::ordered_json* given = reader.Find("hidden_act");
      given != nullptr && *given == "xielu") {
    AddUndescribed("xielu in place of squared_relu, with 2 parameters a layer", model);
  } else {
    reader.Function("hidden_act", false, model.activation);
  }
}

void ReadLlama(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({}, reader, model);
  ReadAttentionBias("attention_bias", reader, model);
  reader.Bool("mlp_bias", model.mlp_bias);
  reader.Windows({}, model);
}

void ReadMistral(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.kv_heads = 8, .max_seq_len = 131072}, reader, model);
  reader.Windows({.window = 4096}, model);
}

void ReadQwen2(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.kv_heads = 32, .max_seq_len = 32768}, reader, model);
  model.qkv_bias = true;
  ReadQwenWindows(reader, model);
}

void ReadQwen3(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.kv_heads = 32, .head_dim = 128, .max_seq_len = 32768}, reader, model);
  ReadAttentionBias("attention_bias", reader, model);
  model.qk_norm = QkNorm::kHead;
  ReadQwenWindows(reader, model);
}

void ReadPhi3(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.max_seq_len = 4096, .norm_eps = 1e-5, .yarn_is_longrope = true}, reader, model);
  reader.Only("attention_bias", false, "use false");
  reader.Only("mlp_bias", false, "use false");
  reader.Only("lm_head_bias", false, "use false");
  reader.Windows({}, model);
}

void ReadOlmo2(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.norm_eps = 1e-5}, reader, model);
  ReadAttentionBias("attention_bias", reader, model);
  model.qk_norm = QkNorm::kFull;
  model.norm_placement = NormPlacement::kOutput;
  reader.Windows({}, model);
}

void ReadSmolLm3(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.kv_heads = 4, .max_seq_len = 32768, .rope_theta = 2'000'000, .tied = true}, reader, model);
  ReadAttentionBias("attention_bias", reader, model);
  reader.Bool("mlp_bias", model.mlp_bias);
  const std::function<bool(std::int64_t)> rotates = ReadRotaryLayers(reader, model);
  ChangeKinds(model, [&](std::int64_t layer, LayerRun& kind) { kind.rotary = rotates(layer); });
  reader.Windows({.used = false, .windowed = [&](std::int64_t layer) { return !rotates(layer); }}, model);
}

void ReadGranite(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({}, reader, model);
  ReadAttentionBias("attention_bias", reader, model);
  reader.Bool("mlp_bias", model.mlp_bias);
  reader.Number("embedding_multiplier", model.embedding_scale);
  reader.Number("residual_multiplier", model.residual_scale);
  double attention = 1;
  reader.Number("attention_multiplier", attention);
  SetAttentionScale(attention, model);
  double logits = 1;  // divides them
  reader.Number("logits_scaling", logits);
  if (logits > 0) {
    model.logit_scale = 1 / logits;
  } else {
    reader.Fail(
        ConfigContradiction(fmt::format("logits_scaling is {}; it must be a positive number", logits)));
  }
  reader.Windows({}, model);
}

// Scaled frequencies are those of layers that attend to all.
void ReadOlmo3(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.norm_eps = 1e-5, .rope_theta = 500'000}, reader, model);
  ReadAttentionBias("attention_bias", reader, model);
  model.qk_norm = QkNorm::kFull;
  model.norm_placement = NormPlacement::kOutput;
  reader.Windows({.window = 4096,
                  .windowed = [](std::int64_t layer) { return (layer + 1) % 4 != 0; },
                  .rope_theta = model.rope_theta},
                 model);
}

void ReadMinistral3(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes(
      {.kv_heads = 8, .head_dim = 128, .max_seq_len = 262144, .norm_eps = 1e-5, .rope_theta = 1'000'000},
      reader, model);
  AddUndescribed("queries scaled by their positions", model);
  reader.Windows({}, model);
}

void ReadGlm(ConfigReader& reader, ModelSpec& model) {
  model.partial_rotary_factor = 0.5;
  ReadNamedSizes({.kv_heads = 2, .head_dim = 128, .max_seq_len = 131072, .norm_eps = 1.5625e-7}, reader,
                 model);
  model.qkv_bias = true;
  reader.Bool("attention_bias", model.qkv_bias);
  reader.Windows({}, model);
}

void ReadGlm4(ConfigReader& reader, ModelSpec& model) {
  ReadGlm(reader, model);
  model.norm_placement = NormPlacement::kSandwich;
}

void ReadErnie45(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.kv_heads = 2,
                  .head_dim = 128,
                  .max_seq_len = 131072,
                  .norm_eps = 1e-5,
                  .rope_theta = 500'000,
                  .tied = true},
                 reader, model);
  bool bias = false;
  reader.Bool("use_bias", bias);
  SetBiases(model, bias);
  reader.Windows({}, model);
}

// Its own scaling by `alpha` is another base of the frequencies.
void ReadHunYuanDense(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.norm_eps = 1e-5}, reader, model);
  ReadAttentionBias("attention_bias", reader, model);
  bool qk_norm = true;
  reader.Bool("use_qk_norm", qk_norm);
  if (qk_norm) {
    model.qk_norm = QkNorm::kHead;
    AddUndescribed("norms of queries and keys after they rotate", model);
  }
  reader.Only("use_cla", false, "use false, with keys and values of its own in each layer");
  reader.Windows({}, model);
}

void ReadSeedOss(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.kv_heads = 8, .head_dim = 128, .max_seq_len = 524288}, reader, model);
  model.qkv_bias = true;
  reader.Bool("attention_bias", model.qkv_bias);
  reader.Bool("attention_out_bias", model.attention_out_bias);
  reader.Bool("mlp_bias", model.mlp_bias);
  reader.Windows({}, model);
}

// Where some layers have windows, the others have no rotary positions.
void ReadExaone4(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.kv_heads = 32, .norm_eps = 1e-5}, reader, model);
  model.qk_norm = QkNorm::kHead;
  model.norm_placement = NormPlacement::kOutput;
  std::string pattern = "LLLG";
  if (const nlohmann::ordered_json* given = reader.Find("sliding_window_pattern"); given == nullptr) {
    if (reader.IsNull("sliding_window_pattern")) pattern = "L";
  } else if (given->is_string()) {
    pattern = given->get<std::string>();
  } else {
    std::int64_t every = 4;
    reader.Size("sliding_window_pattern", every);
    pattern = std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(every, 1, 1'000) - 1), 'L') + 'G';
  }
  if (pattern.empty() || pattern.find_first_not_of("LG") != std::string::npos)
    return reader.Fail(
        ConfigContradiction("sliding_window_pattern must have a letter L or G for each layer"));
  const bool windows = !reader.IsNull("sliding_window");
  const std::vector<bool> windowed =
      reader.Windows({.window = 4096,
                      .windowed =
                          [&](std::int64_t layer) {
                            return pattern[static_cast<std::size_t>(layer) % pattern.size()] == 'L' &&
                                   (pattern.size() == 1 || layer != model.layers - 1);
                          }},
                     model);
  ChangeKinds(model, [&](std::int64_t layer, LayerRun& kind) {
    kind.rotary = !windows || windowed[static_cast<std::size_t>(layer)];
  });
}

// The activation xIELU has two parameters in each layer.
void ReadApertus(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.max_seq_len = 65536,
                  .norm_eps = 1e-5,
                  .rope_theta = 12'000'000,
                  .activation = Activation::kSquaredRelu},
                 reader, model);
  ReadAttentionBias("attention_bias", reader, model);
  model.qk_norm = QkNorm::kHead;
  reader.Windows({}, model);
}

void ReadArcee(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.max_seq_len = 4096, .norm_eps = 1e-5, .activation = Activation::kSquaredRelu}, reader,
                 model);
  ReadAttentionBias("attention_bias", reader, model);
  reader.Bool("mlp_bias", model.mlp_bias);
  reader.Windows({}, model);
}

void ReadHelium(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes(
      {.kv_heads = 20, .head_dim = 128, .max_seq_len = 4096, .norm_eps = 1e-8, .rope_theta = 100'000}, reader,
      model);
  ReadAttentionBias("attention_bias", reader, model);
  reader.Bool("mlp_bias", model.mlp_bias);
  reader.Windows({}, model);
}

void ReadCwm(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes(
      {.kv_heads = 8, .head_dim = 128, .max_seq_len = 131072, .norm_eps = 1e-5, .rope_theta = 1'000'000},
      reader, model);
  reader.Bool("mlp_bias", model.mlp_bias);
  reader.Windows({.window = 8192, .windowed = [](std::int64_t layer) { return layer % 4 != 0; }}, model);
}

// ImportHuggingFace refuses files with other layers than attention or with experts. The feed-forward block is
// the one that experts would share.
void ReadGraniteMoeHybrid(ConfigReader& reader, ModelSpec& model) {
  reader.Require("shared_intermediate_size");
  ReadGranite(reader, model);
  reader.Size("shared_intermediate_size", model.ffn_hidden);
  const nlohmann::ordered_json* position = reader.Find("position_embedding_type");
  if (position == nullptr || *position == "rope") return;
  model.position = Position::kNone;  // "nope"
  model.rope_scaling = RopeScaling::kNone;
}

void ReadInternLm2(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({}, reader, model);
  model.qkv_bias = true;
  ReadAttentionBias("bias", reader, model);
  reader.Windows({}, model);
}

void ReadInternLm3(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.max_seq_len = 32768}, reader, model);
  bool bias = false;
  reader.Bool("bias", bias);
  SetBiases(model, bias);
  model.qkv_bias = false;
  reader.Bool("qkv_bias", model.qkv_bias);
  reader.Windows({}, model);
}

}  // namespace autocfg
