// Relatives of Llama whose checkpoints carry their own code. Defaults are those of its configuration classes.
#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "search/hugging_face/model_families.h"

namespace autocfg {
namespace {

constexpr std::int64_t kMostRopeRatio = 1'000'000;

}  // namespace

// ChatGLM2 and later. Half of the dims of a head rotate.
void ReadChatGlm(ConfigReader& reader, ModelSpec& model) {
  SetPartsOfLlama(model);
  for (const std::string_view name : {"num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size"})
    reader.Require(name);
  reader.Require({"padded_vocab_size", "vocab_size"});
  reader.Size("num_layers", model.layers);
  reader.Size("hidden_size", model.hidden);
  reader.Size("num_attention_heads", model.heads);
  reader.Size("kv_channels", model.head_dim);
  reader.Size("ffn_hidden_size", model.ffn_hidden);
  reader.Size({"padded_vocab_size", "vocab_size"}, model.vocab);
  model.max_seq_len = 2048;
  reader.Size("seq_length", model.max_seq_len);
  bool grouped = false;
  std::int64_t groups = 1;
  reader.Bool("multi_query_attention", grouped);
  reader.Size("multi_query_group_num", groups);
  if (grouped) model.kv_heads = groups;
  reader.Number("layernorm_epsilon", model.norm_eps);
  bool rms = true;
  reader.Bool("rmsnorm", rms);
  if (!rms) model.norm = Norm::kLayerNorm;
  bool bias = false, qkv_bias = false;
  reader.Bool("add_bias_linear", bias);
  reader.Bool("add_qkv_bias", qkv_bias);
  SetBiases(model, bias);
  model.qkv_bias = bias || qkv_bias;
  model.tied_embeddings = false;
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  model.partial_rotary_factor = 0.5;
  double ratio = 1;
  reader.Number("rope_ratio", ratio);
  if (ratio > 0 && ratio <= kMostRopeRatio) model.rope_theta *= ratio;
  reader.Only("apply_residual_connection_post_layernorm", false, "use false");
  reader.Only("post_layer_norm", true, "use true");
}

// intermediate_size counts gates and ups together.
void ReadQwen(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.max_seq_len = 8192}, reader, model);
  model.ffn_hidden /= 2;
  reader.Size("seq_length", model.max_seq_len);
  reader.Size("kv_channels", model.head_dim);
  reader.Number("layer_norm_epsilon", model.norm_eps);
  reader.Number("rotary_pct", model.partial_rotary_factor);
  reader.Number("rotary_emb_base", model.rope_theta);
  model.qkv_bias = true;
  reader.Only("no_bias", true, "use true");
}

// The larger models have ALiBi, and no max_position_embeddings.
void ReadBaichuan(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.max_seq_len = 4096}, reader, model);
  if (reader.Find("max_position_embeddings") == nullptr) model.position = Position::kAlibi;
  reader.Size("model_max_length", model.max_seq_len);
}

void ReadExaone(ConfigReader& reader, ModelSpec& model) {
  SetPartsOfLlama(model);
  for (const std::string_view name :
       {"num_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"}) {
    reader.Require(name);
  }
  reader.Size("num_layers", model.layers);
  reader.Size("hidden_size", model.hidden);
  reader.Size("num_attention_heads", model.heads);
  reader.Size("num_key_value_heads", model.kv_heads);
  reader.Size("head_dim", model.head_dim);
  reader.Size("intermediate_size", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = 2048;
  reader.Size("max_position_embeddings", model.max_seq_len);
  reader.Function("activation_function", true, model.activation);
  reader.Number("layer_norm_epsilon", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  reader.Rope(model);
}

void ReadInternLm(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({}, reader, model);
  model.qkv_bias = true;
  model.attention_out_bias = true;
  ReadAttentionBias("bias", reader, model);
}

// Scales follow from the depth and from the width of a base model.
void ReadMiniCpm(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.tied = true}, reader, model);
  ReadAttentionBias("attention_bias", reader, model);
  reader.Number("scale_emb", model.embedding_scale);
  double depth = 1;
  reader.Number("scale_depth", depth);
  if (model.layers > 0 && reader.Find("scale_depth") != nullptr)
    model.residual_scale = depth / std::sqrt(static_cast<double>(model.layers));
  std::int64_t base = model.hidden;
  reader.Size("dim_model_base", base);
  if (model.hidden > 0) model.logit_scale = static_cast<double>(base) / static_cast<double>(model.hidden);
}

void ReadYi(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.kv_heads = 4, .max_seq_len = 4096, .rope_theta = 5'000'000}, reader, model);
}

void ReadXverse(ConfigReader& reader, ModelSpec& model) { ReadNamedSizes({}, reader, model); }

void ReadSkywork(ConfigReader& reader, ModelSpec& model) {
  ReadNamedSizes({.max_seq_len = 4096}, reader, model);
}

}  // namespace autocfg
