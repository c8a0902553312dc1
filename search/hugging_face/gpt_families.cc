// GPT and its relatives. Defaults are those of the configuration classes of transformers.
#include <cmath>

#include "base/json_reader.h"
#include "fmt/format.h"
#include "search/hugging_face/model_families.h"

namespace autocfg {
namespace {

constexpr std::int64_t kMostExpansion = 1'000;
constexpr std::int64_t kMostHidden = 1'000'000'000;

// Reads the sizes of GPT-2's relatives, by its names.
void ReadGpt2Sizes(ConfigReader& reader, ModelSpec& model, bool reads_function = true) {
  for (const std::string_view name : {"n_layer", "n_embd", "n_head", "vocab_size"}) reader.Require(name);
  reader.Size("n_layer", model.layers);
  reader.Size("n_embd", model.hidden);
  reader.Size("n_head", model.heads);
  reader.Size("n_inner", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  reader.Size("n_positions", model.max_seq_len);
  if (reads_function) reader.Function("activation_function", false, model.activation);
  reader.Number("layer_norm_epsilon", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
}

}  // namespace

// Older files use n_ctx, which meant the same as n_positions.
void ReadGpt2(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGelu;
  model.max_seq_len = 1024;
  ReadGpt2Sizes(reader, model);
  reader.Only("scale_attn_weights", true, "use true");
  reader.Only("scale_attn_by_inverse_layer_idx", false, "use false");
  reader.Only("add_cross_attention", false, "use false");
}

// Norms are on the sums with the residual, and none is before the output layer.
void ReadOpenAiGpt(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGelu;
  model.max_seq_len = 512;
  ReadGpt2Sizes(reader, model);
  if (const nlohmann::ordered_json* given = reader.Find("afn"); given != nullptr && *given != "gelu")
    reader.Function("afn", false, model.activation);  // "gelu" is the tanh form
  model.norm_placement = NormPlacement::kOutput;
  AddUndescribed("norms of the sums with the residual", model);
}

void ReadCtrl(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kRelu;
  model.position = Position::kNone;
  model.max_seq_len = 256;
  model.norm_eps = 1e-6;
  ReadGpt2Sizes(reader, model);
  reader.Require("dff");
  reader.Size("dff", model.ffn_hidden);
  if (model.hidden > 0) model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  AddUndescribed("sinusoidal positions added to the embeddings, biases of the output layer", model);
}

// ALiBi, SwiGLU and biases; scales of maximal update parametrization.
void ReadJais(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGelu;
  model.max_seq_len = 1024;
  const nlohmann::ordered_json* function = reader.Find("activation_function");
  const bool gated = function != nullptr && *function == "swiglu";
  ReadGpt2Sizes(reader, model, /*reads_function=*/!gated);
  if (gated) model.activation = Activation::kSwiGlu;
  const nlohmann::ordered_json* position = reader.Find("position_embedding_type");
  if (position != nullptr && *position == "alibi") model.position = Position::kAlibi;
  reader.Number("embeddings_scale", model.embedding_scale);
  reader.Number("mup_embeddings_scale", model.embedding_scale);
  for (const std::string_view name : {"width_scale", "mup_output_alpha"}) {
    double scale = 1;
    reader.Number(name, scale);
    model.logit_scale *= scale;
  }
  reader.Only("scale_attn_weights", true, "use true");
}

void ReadGptNeoX(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGeluErf;
  model.position = Position::kRope;
  model.tied_embeddings = false;
  for (const std::string_view name :
       {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"}) {
    reader.Require(name);
  }
  reader.Size("num_hidden_layers", model.layers);
  reader.Size("hidden_size", model.hidden);
  reader.Size("num_attention_heads", model.heads);
  reader.Size("intermediate_size", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = 2048;
  reader.Size("max_position_embeddings", model.max_seq_len);
  reader.Function("hidden_act", false, model.activation);
  reader.Number("layer_norm_eps", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  bool attention_bias = true;
  reader.Bool("attention_bias", attention_bias);
  model.qkv_bias = attention_bias;
  model.attention_out_bias = attention_bias;
  model.parallel_residual = true;
  reader.Bool("use_parallel_residual", model.parallel_residual);
  model.partial_rotary_factor = 0.25;
  reader.Number("rotary_pct", model.partial_rotary_factor);
  reader.Number("rotary_emb_base", model.rope_theta);
  reader.Rope(model);
}

// The table of positions has two rows more than max_position_embeddings, which no token uses.
void ReadOpt(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kRelu;
  reader.Require("num_hidden_layers");
  reader.Require({"hidden_size", "d_model"});
  for (const std::string_view name : {"num_attention_heads", "ffn_dim", "vocab_size"}) reader.Require(name);
  reader.Size("num_hidden_layers", model.layers);
  reader.Size({"hidden_size", "d_model"}, model.hidden);
  reader.Size("num_attention_heads", model.heads);
  reader.Size("ffn_dim", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = 2048;
  reader.Size("max_position_embeddings", model.max_seq_len);
  reader.Function("activation_function", false, model.activation);
  reader.Number("init_std", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  bool bias = true;
  reader.Bool("enable_bias", bias);
  SetBiases(model, bias);
  reader.Only("do_layer_norm_before", true, "use true, which puts norms on the inputs of layers");
  reader.Only("_remove_final_layer_norm", false, "use false");
  bool weights = true;
  reader.Bool("layer_norm_elementwise_affine", weights);
  if (!weights) AddUndescribed("norms without weights and biases", model);
  reader.Only("word_embed_proj_dim", model.hidden, fmt::format("use hidden_size = {}", model.hidden));
}

// There is no table of positions: seq_length says what the model was trained with.
void ReadBloom(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGelu;
  model.position = Position::kAlibi;
  model.embedding_norm = true;
  reader.Require({"n_layer", "num_hidden_layers"});
  reader.Require({"hidden_size", "n_embed"});
  reader.Require({"n_head", "num_attention_heads"});
  reader.Require("vocab_size");
  reader.Size({"n_layer", "num_hidden_layers"}, model.layers);
  reader.Size({"hidden_size", "n_embed"}, model.hidden);
  reader.Size({"n_head", "num_attention_heads"}, model.heads);
  reader.Size("n_inner", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = 2048;
  reader.Size("seq_length", model.max_seq_len);
  reader.Number("layer_norm_epsilon", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  reader.Only("apply_residual_connection_post_layernorm", false, "use false");
}

void ReadFalcon(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGeluErf;
  reader.Require({"num_hidden_layers", "n_layer"});
  reader.Require({"hidden_size", "n_embed"});
  reader.Require({"num_attention_heads", "n_head"});
  reader.Require("vocab_size");
  reader.Size({"num_hidden_layers", "n_layer"}, model.layers);
  reader.Size({"hidden_size", "n_embed"}, model.hidden);
  reader.Size({"num_attention_heads", "n_head"}, model.heads);
  reader.Size("ffn_hidden_size", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = 2048;
  reader.Size("max_position_embeddings", model.max_seq_len);
  reader.Function("activation", false, model.activation);
  reader.Number("layer_norm_epsilon", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  bool bias = false;
  reader.Bool("bias", bias);
  SetBiases(model, bias);

  bool newer = false;
  reader.Bool("new_decoder_architecture", newer);
  bool multi_query = true;
  reader.Bool("multi_query", multi_query);
  std::int64_t kv_heads = model.heads;
  reader.Size({"num_kv_heads", "n_head_kv"}, kv_heads);
  model.kv_heads = newer ? kv_heads : multi_query ? 1 : model.heads;

  bool parallel = true;
  reader.Bool("parallel_attn", parallel);
  std::int64_t norms = newer ? 2 : 1;  // num_ln_in_parallel_attn, which only the newer architecture reads
  reader.Size("num_ln_in_parallel_attn", norms);
  model.parallel_residual = parallel || newer;
  model.shared_norm = model.parallel_residual && !(newer && norms == 2);

  bool alibi = false;
  reader.Bool("alibi", alibi);
  model.position = alibi ? Position::kAlibi : Position::kRope;
  if (!alibi) reader.Rope(model);
}

// Older names of Falcon's types, and of their fields.
void ReadRefinedWebModel(ConfigReader& reader, ModelSpec& model) { ReadFalcon(reader, model); }

void ReadRefinedWeb(ConfigReader& reader, ModelSpec& model) {
  ReadFalcon(reader, model);
  model.kv_heads = model.heads;
  reader.Size({"num_kv_heads", "n_head_kv"}, model.kv_heads);
  model.shared_norm = false;
}

void ReadStarcoder2(ConfigReader& reader, ModelSpec& model) {
  ReadLlamaSizes({.kv_heads = 2, .max_seq_len = 4096, .norm_eps = 1e-5, .tied = true}, reader, model);
  model.activation = Activation::kGelu;
  model.norm = Norm::kLayerNorm;
  reader.Function("hidden_act", false, model.activation);
  reader.Number("norm_epsilon", model.norm_eps);
  if (reader.Find("initializer_range") == nullptr) model.init_std = 0.018042;
  bool bias = true;
  reader.Bool("use_bias", bias);
  SetBiases(model, bias);
  reader.Only("norm_type", "layer_norm", "use layer_norm");
  reader.Only("mlp_type", "default", "use default");
  reader.Windows({}, model);
}

namespace {

// Sets the share of each head that rotates, from a number of its dims.
void SetRotaryDims(std::int64_t dims, ModelSpec& model) {
  if (model.heads > 0 && model.hidden >= model.heads) {
    model.partial_rotary_factor = static_cast<double>(dims) / static_cast<double>(model.hidden / model.heads);
  }
}

// Embeddings are multiplied by the root of their width.
void ReadScaledEmbedding(ConfigReader& reader, ModelSpec& model) {
  bool scaled = true;
  reader.Bool("scale_embedding", scaled);
  if (scaled && model.hidden > 0) model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
}

}  // namespace

void ReadGptJ(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGelu;
  model.position = Position::kRope;
  model.tied_embeddings = false;
  model.max_seq_len = 2048;
  model.qkv_bias = false;
  model.attention_out_bias = false;
  model.parallel_residual = true;
  model.shared_norm = true;
  ReadGpt2Sizes(reader, model);
  std::int64_t rotary_dims = 64;
  reader.Size("rotary_dim", rotary_dims);
  SetRotaryDims(rotary_dims, model);
  AddUndescribed("biases of the output layer", model);
}

void ReadCodeGen(ConfigReader& reader, ModelSpec& model) { ReadGptJ(reader, model); }

// Layers attend to all and to a window in turns. Scores are not scaled.
void ReadGptNeo(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGelu;
  model.qkv_bias = false;
  for (const std::string_view name : {"num_layers", "hidden_size", "num_heads", "vocab_size"})
    reader.Require(name);
  reader.Size("num_layers", model.layers);
  reader.Size("hidden_size", model.hidden);
  reader.Size("num_heads", model.heads);
  reader.Size("intermediate_size", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = 2048;
  reader.Size("max_position_embeddings", model.max_seq_len);
  reader.Function("activation_function", false, model.activation);
  reader.Number("layer_norm_epsilon", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  SetAttentionScale(1, model);

  std::int64_t window = 256;
  reader.Size("window_size", window);
  const nlohmann::ordered_json* types = reader.Find("attention_types");
  nlohmann::ordered_json cycle = nlohmann::ordered_json::array({"global", "local"});
  if (types != nullptr) {
    if (!types->is_array() || types->size() != 1 || !types->front().is_array() ||
        types->front().size() != 2 || !types->front().front().is_array() || types->front().front().empty()) {
      return reader.Fail(ConfigNotYet("attention_types", *types, "give one list with its repetitions"));
    }
    cycle = types->front().front();
  }
  for (const nlohmann::ordered_json& type : cycle) {
    if (type != "global" && type != "local")
      return reader.Fail(ConfigNotYet("attention_types", type, "use global or local"));
  }
  ChangeKinds(model, [&](std::int64_t layer, LayerRun& kind) {
    if (cycle[static_cast<std::size_t>(layer) % cycle.size()] == "local" && window < model.max_seq_len)
      kind.window = window;
  });
}

void ReadGptBigCode(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGelu;
  model.max_seq_len = 1024;
  ReadGpt2Sizes(reader, model);
  bool multi_query = true;
  reader.Bool("multi_query", multi_query);
  if (multi_query) model.kv_heads = 1;
  reader.Only("scale_attn_weights", true, "use true");
}

// Its norms have no biases either.
void ReadMpt(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGeluErf;
  model.position = Position::kAlibi;
  for (const std::string_view name : {"n_layers", "d_model", "n_heads", "vocab_size"}) reader.Require(name);
  reader.Size("n_layers", model.layers);
  reader.Size("d_model", model.hidden);
  reader.Size("n_heads", model.heads);
  reader.Size("vocab_size", model.vocab);
  std::int64_t expansion = 4;
  reader.Size("expansion_ratio", expansion);
  if (expansion <= kMostExpansion && model.hidden <= kMostHidden) model.ffn_hidden = expansion * model.hidden;
  model.max_seq_len = 2048;
  reader.Size("max_seq_len", model.max_seq_len);
  reader.Number("layer_norm_epsilon", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  reader.Only("no_bias", true, "use true");
  reader.Only("tie_word_embeddings", true, "use true");
  SetBiases(model, false);
  AddUndescribed("norms without biases", model);
  const nlohmann::ordered_json* attention = reader.Find("attn_config");
  if (attention == nullptr) return;
  if (!attention->is_object()) return reader.Fail(ConfigContradiction("attn_config must be an object"));
  if (attention->value("qk_ln", nlohmann::ordered_json(false)) == true)
    return reader.Fail(ConfigNotYet("attn_config.qk_ln", true, "use false"));
  if (attention->value("alibi", nlohmann::ordered_json(true)) == false) {
    model.position = Position::kLearned;
    if (attention->value("rope", nlohmann::ordered_json(false)) == true) model.position = Position::kRope;
  }
  const nlohmann::ordered_json type =
      attention->value("attn_type", nlohmann::ordered_json("multihead_attention"));
  if (type == "multiquery_attention") {
    model.kv_heads = 1;
  } else if (type == "grouped_query_attention") {
    if (const auto heads = attention->find("kv_n_heads"); heads != attention->end())
      model.kv_heads = base::WholeNumber(*heads).value_or(0);
  } else if (type != "multihead_attention") {
    reader.Fail(ConfigNotYet("attn_config.attn_type", type,
                             "use multihead_attention, grouped_query_attention or multiquery_attention"));
  }
  if (attention->contains("clip_qkv") && !(*attention)["clip_qkv"].is_null())
    AddUndescribed("clipped queries, keys and values", model);
}

void ReadXglm(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGeluErf;
  model.position = Position::kNone;
  for (const std::string_view name : {"num_layers", "d_model", "attention_heads", "ffn_dim", "vocab_size"})
    reader.Require(name);
  reader.Size("num_layers", model.layers);
  reader.Size("d_model", model.hidden);
  reader.Size("attention_heads", model.heads);
  reader.Size("ffn_dim", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = 2048;
  reader.Size("max_position_embeddings", model.max_seq_len);
  reader.Function("activation_function", false, model.activation);
  reader.Number("init_std", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  ReadScaledEmbedding(reader, model);
  reader.Only("add_cross_attention", false, "use false");
  AddUndescribed("sinusoidal positions added to the embeddings", model);
}

// The table of positions has two rows more, as that of OPT.
void ReadBioGpt(ConfigReader& reader, ModelSpec& model) {
  model.activation = Activation::kGeluErf;
  for (const std::string_view name :
       {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"}) {
    reader.Require(name);
  }
  reader.Size("num_hidden_layers", model.layers);
  reader.Size("hidden_size", model.hidden);
  reader.Size("num_attention_heads", model.heads);
  reader.Size("intermediate_size", model.ffn_hidden);
  reader.Size("vocab_size", model.vocab);
  model.max_seq_len = 1024;
  reader.Size("max_position_embeddings", model.max_seq_len);
  reader.Function("hidden_act", false, model.activation);
  reader.Number("layer_norm_eps", model.norm_eps);
  reader.Number("initializer_range", model.init_std);
  reader.Bool("tie_word_embeddings", model.tied_embeddings);
  ReadScaledEmbedding(reader, model);
}

}  // namespace autocfg
