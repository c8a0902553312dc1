// The model types of Hugging Face's transformers that are imported, and how the configuration of each
// becomes a ModelSpec. Pure functions, thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "search/hugging_face/config_reader.h"
#include "search/plan/model_spec.h"

namespace autocfg {

// One model type. `read` fills the model from a file of the type, without the name and without FillDefaults.
// Missing fields take the defaults of the type's configuration class. Errors are left in the reader.
struct ModelFamily {
  std::string_view type;
  std::string_view architecture;  // the name of its language model, which predicts the next token
  void (*read)(ConfigReader& reader, ModelSpec& model);
  // Of a model of several modalities: the type of its text_config, which alone is read. Empty: the file
  // itself.
  std::string_view text_type = {};
};

// By family, in the order of the documentation.
const std::vector<ModelFamily>& ModelFamilies();

// Returns null for an unknown type.
const ModelFamily* FindFamily(std::string_view type);

// Readers of the types. GPT and its relatives: LayerNorm, no gates.
void ReadGpt2(ConfigReader& reader, ModelSpec& model);
void ReadGptNeoX(ConfigReader& reader, ModelSpec& model);
void ReadOpt(ConfigReader& reader, ModelSpec& model);
void ReadBloom(ConfigReader& reader, ModelSpec& model);
void ReadFalcon(ConfigReader& reader, ModelSpec& model);
void ReadStarcoder2(ConfigReader& reader, ModelSpec& model);

// Llama and its relatives: RMSNorm, gated feed-forward, rotary positions.
void ReadLlama(ConfigReader& reader, ModelSpec& model);
void ReadMistral(ConfigReader& reader, ModelSpec& model);
void ReadQwen2(ConfigReader& reader, ModelSpec& model);
void ReadQwen3(ConfigReader& reader, ModelSpec& model);
void ReadPhi3(ConfigReader& reader, ModelSpec& model);
void ReadOlmo2(ConfigReader& reader, ModelSpec& model);
void ReadSmolLm3(ConfigReader& reader, ModelSpec& model);
void ReadGranite(ConfigReader& reader, ModelSpec& model);
void ReadInternLm2(ConfigReader& reader, ModelSpec& model);
void ReadInternLm3(ConfigReader& reader, ModelSpec& model);

// Gemma: as Llama, with scaled embeddings.
void ReadGemma(ConfigReader& reader, ModelSpec& model);
void ReadGemma2(ConfigReader& reader, ModelSpec& model);
void ReadGemma3(ConfigReader& reader, ModelSpec& model);

// Parts that several readers share.
struct LlamaDefaults {
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;  // 0: hidden / heads
  std::int64_t max_seq_len = 2048;
  double norm_eps = 1e-6;
  double rope_theta = 10000;
  bool tied = false;
  bool yarn_is_longrope = false;
};

// Reads what files of Llama's relatives have in common, but for the activation and windows. Biases are
// absent.
void ReadLlamaSizes(const LlamaDefaults& defaults, ConfigReader& reader, ModelSpec& model);

// Sets attention_scale, or leaves it at 0 if `scale` is the usual 1 / sqrt(head_dim).
void SetAttentionScale(double scale, ModelSpec& model);

}  // namespace autocfg
