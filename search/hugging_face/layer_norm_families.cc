// Relatives of Llama with LayerNorm. Defaults are those of the configuration classes of transformers; Orion's
// are those of the class that its checkpoints carry.
#include "fmt/format.h"
#include "search/hugging_face/model_families.h"

namespace autocfg {
namespace {

// The sizes that files of all these types say.
void ReadSizes(const LlamaDefaults& defaults, std::string_view norm_eps, ConfigReader& reader,
               ModelSpec& model) {
  ReadNamedSizes(defaults, reader, model);
  model.norm = Norm::kLayerNorm;
  reader.Number(norm_eps, model.norm_eps);
}

// Norms of queries and keys that have a weight for each head, in place of one for all.
void SetNormsOfEachHead(std::string_view parts, ModelSpec& model) {
  model.qk_norm = QkNorm::kHead;
  AddUndescribed(fmt::format("{} of the norms of queries and keys", parts), model);
}

constexpr std::string_view kOfEachHead = "means, and weights of each head,";

// Cohere's models: attention and feed-forward side by side, with one norm.
void ReadCohereSizes(ConfigReader& reader, ModelSpec& model) {
  ReadSizes({.max_seq_len = 8192, .norm_eps = 1e-5, .tied = true}, "layer_norm_eps", reader, model);
  model.parallel_residual = true;
  model.shared_norm = true;
  AddUndescribed("norms without biases", model);
  ReadAttentionBias("attention_bias", reader, model);
  model.logit_scale = 0.0625;
  reader.Number("logit_scale", model.logit_scale);
}

}  // namespace

void ReadPhi(ConfigReader& reader, ModelSpec& model) {
  model.partial_rotary_factor = 0.5;
  ReadSizes({.norm_eps = 1e-5, .activation = Activation::kGelu}, "layer_norm_eps", reader, model);
  SetBiases(model, true);
  model.parallel_residual = true;
  model.shared_norm = true;
  AddUndescribed("biases of the output layer", model);
  bool qk_norm = false;
  reader.Bool("qk_layernorm", qk_norm);
  if (qk_norm) SetNormsOfEachHead("means and biases", model);
}

void ReadPersimmon(ConfigReader& reader, ModelSpec& model) {
  model.partial_rotary_factor = 0.5;
  ReadSizes(
      {.max_seq_len = 16384, .norm_eps = 1e-5, .rope_theta = 25'000, .activation = Activation::kSquaredRelu},
      "layer_norm_eps", reader, model);
  SetBiases(model, true);
  bool qk_norm = true;
  reader.Bool("qk_layernorm", qk_norm);
  if (qk_norm) SetNormsOfEachHead("means and biases", model);
}

// The older type stablelm_epoch has other names.
void ReadStableLm(ConfigReader& reader, ModelSpec& model) {
  model.partial_rotary_factor = 0.25;
  reader.Number("rope_pct", model.partial_rotary_factor);
  ReadSizes({.kv_heads = 32, .max_seq_len = 4096, .norm_eps = 1e-5}, "layer_norm_eps", reader, model);
  reader.Number("norm_eps", model.norm_eps);
  reader.Bool("use_qkv_bias", model.qkv_bias);
  reader.Bool("use_parallel_residual", model.parallel_residual);
  model.shared_norm = model.parallel_residual;
  bool qk_norm = false;
  reader.Bool("qk_layernorm", qk_norm);
  if (qk_norm) SetNormsOfEachHead(kOfEachHead, model);
}

// Its norms store what is added to 1.
void ReadNemotron(ConfigReader& reader, ModelSpec& model) {
  model.init_std = 0.0134;
  model.partial_rotary_factor = 0.5;
  ReadSizes({.max_seq_len = 4096, .norm_eps = 1e-5, .activation = Activation::kSquaredRelu}, "norm_eps",
            reader, model);
  reader.Number("rope_percent", model.partial_rotary_factor);
  ReadAttentionBias("attention_bias", reader, model);
  reader.Bool("mlp_bias", model.mlp_bias);
}

void ReadCohere(ConfigReader& reader, ModelSpec& model) {
  ReadCohereSizes(reader, model);
  bool qk_norm = false;
  reader.Bool("use_qk_norm", qk_norm);
  if (qk_norm) SetNormsOfEachHead(kOfEachHead, model);
}

// Layers without a window have no rotary positions.
void ReadCohere2(ConfigReader& reader, ModelSpec& model) {
  ReadCohereSizes(reader, model);
  std::int64_t pattern = 4;
  reader.Size("sliding_window_pattern", pattern);
  const bool windows = !reader.IsNull("sliding_window");
  const std::vector<bool> windowed = reader.Windows(
      {.window = 4096, .windowed = [pattern](std::int64_t layer) { return (layer + 1) % pattern != 0; }},
      model);
  ChangeKinds(model, [&](std::int64_t layer, LayerRun& kind) {
    kind.rotary = windows && windowed[static_cast<std::size_t>(layer)];
  });
}

void ReadOlmo(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.norm_eps = 1e-5}, reader, model);
  model.norm = Norm::kLayerNorm;
  model.norm_eps = 1e-5;
  ReadAttentionBias("attention_bias", reader, model);
  AddUndescribed("norms without weights and biases", model);
  if (reader.Find("clip_qkv") != nullptr) AddUndescribed("clipped queries, keys and values", model);
}

void ReadOrion(ConfigReader& reader, ModelSpec& model) {
  ReadSizes({.max_seq_len = 4096, .norm_eps = 1e-5}, "rms_norm_eps", reader, model);
  reader.Only("attention_bias", false, "use false");
}

}  // namespace autocfg
