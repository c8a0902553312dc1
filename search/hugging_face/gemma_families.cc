// Gemma's models. Defaults are those of the configuration classes of transformers. Its norms store what is
// added to 1: that changes the stored weights, not the step.
#include <cmath>

#include "search/hugging_face/model_families.h"

namespace autocfg {
namespace {

// Reads what all of Gemma's files have in common.
void ReadGemmaSizes(const LlamaDefaults& defaults, ConfigReader& reader, ModelSpec& model) {
  ReadLlamaSizes(defaults, reader, model);
  model.activation = Activation::kGeGlu;
  // The first files of Gemma have hidden_act "gelu", which transformers takes as the tanh form it was
  // trained with.
  if (reader.Find("hidden_activation") == nullptr && reader.Find("hidden_act") != nullptr &&
      *reader.Find("hidden_act") != "gelu") {
    reader.Function("hidden_act", true, model.activation);
  }
  reader.Function("hidden_activation", true, model.activation);
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  bool attention_bias = false;
  reader.Bool("attention_bias", attention_bias);
  model.qkv_bias = attention_bias;
  model.attention_out_bias = attention_bias;
  reader.Only("use_bidirectional_attention", false, "use false, which attends to earlier tokens only");
}

// Scores are divided by the root of query_pre_attn_scalar.
void ReadQueryScale(ConfigReader& reader, ModelSpec& model) {
  double scalar = 256;
  reader.Number("query_pre_attn_scalar", scalar);
  if (scalar > 0) {
    SetAttentionScale(1 / std::sqrt(scalar), model);
  } else {
    reader.Fail(ConfigContradiction("query_pre_attn_scalar is 0; it must be a positive number"));
  }
}

void ReadSoftcap(std::string_view name, double usual, ConfigReader& reader, double& cap) {
  cap = reader.IsNull(name) ? 0 : usual;
  reader.Number(name, cap);
}

}  // namespace

void ReadGemma(ConfigReader& reader, ModelSpec& model) {
  model.heads = 16;
  model.ffn_hidden = 24576;
  model.vocab = 256000;
  ReadGemmaSizes({.kv_heads = 16, .head_dim = 256, .max_seq_len = 8192, .tied = true}, reader, model);
  reader.Windows({}, model);
}

void ReadGemma2(ConfigReader& reader, ModelSpec& model) {
  model.heads = 8;
  model.ffn_hidden = 9216;
  model.vocab = 256000;
  ReadGemmaSizes({.kv_heads = 4, .head_dim = 256, .max_seq_len = 8192, .tied = true}, reader, model);
  model.norm_placement = NormPlacement::kSandwich;
  ReadQueryScale(reader, model);
  ReadSoftcap("attn_logit_softcapping", 50, reader, model.attention_softcap);
  ReadSoftcap("final_logit_softcapping", 30, reader, model.output_softcap);
  reader.Windows({.window = 4096, .windowed = [](std::int64_t layer) { return layer % 2 == 0; }}, model);
}

// As Gemma 2, with norms on the inputs of blocks alone.
void ReadVaultGemma(ConfigReader& reader, ModelSpec& model) {
  ReadGemma2(reader, model);
  model.norm_placement = NormPlacement::kPre;
}

// Layers with windows rotate by rope_local_base_freq in place of rope_theta and its scaling.
void ReadGemma3(ConfigReader& reader, ModelSpec& model) {
  model.heads = 8;
  model.ffn_hidden = 9216;
  model.vocab = 262208;
  ReadGemmaSizes(
      {.kv_heads = 4, .head_dim = 256, .max_seq_len = 131072, .rope_theta = 1'000'000, .tied = true}, reader,
      model);
  model.norm_placement = NormPlacement::kSandwich;
  model.qk_norm = QkNorm::kHead;
  ReadQueryScale(reader, model);
  ReadSoftcap("attn_logit_softcapping", 0, reader, model.attention_softcap);
  ReadSoftcap("final_logit_softcapping", 0, reader, model.output_softcap);
  double local_theta = 10'000;
  reader.Number("rope_local_base_freq", local_theta);
  if (local_theta == 0)
    reader.Fail(ConfigContradiction("rope_local_base_freq is 0; it must be a positive number"));
  std::int64_t pattern = 6;
  reader.Size("_sliding_window_pattern", pattern);
  reader.Size("sliding_window_pattern", pattern);
  reader.Windows({.window = 4096,
                  .windowed = [pattern](std::int64_t layer) { return (layer + 1) % pattern != 0; },
                  .rope_theta = local_theta},
                 model);
}

}  // namespace autocfg
