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
  // The names of its language model, which predicts the next token.
  std::vector<std::string_view> architectures;
  // Null for a model of several modalities, whose text_config alone is read, by the reader of its type.
  void (*read)(ConfigReader& reader, ModelSpec& model);
  // The types of that text_config; the first is the default.
  std::vector<std::string_view> text_types = {};
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
void ReadOpenAiGpt(ConfigReader& reader, ModelSpec& model);
void ReadCtrl(ConfigReader& reader, ModelSpec& model);
void ReadJais(ConfigReader& reader, ModelSpec& model);
void ReadGptJ(ConfigReader& reader, ModelSpec& model);
void ReadCodeGen(ConfigReader& reader, ModelSpec& model);
void ReadGptNeo(ConfigReader& reader, ModelSpec& model);
void ReadGptBigCode(ConfigReader& reader, ModelSpec& model);
void ReadMpt(ConfigReader& reader, ModelSpec& model);
void ReadXglm(ConfigReader& reader, ModelSpec& model);
void ReadBioGpt(ConfigReader& reader, ModelSpec& model);
void ReadRefinedWeb(ConfigReader& reader, ModelSpec& model);
void ReadRefinedWebModel(ConfigReader& reader, ModelSpec& model);

// LayerNorm with rotary positions.
void ReadPhi(ConfigReader& reader, ModelSpec& model);
void ReadPersimmon(ConfigReader& reader, ModelSpec& model);
void ReadStableLm(ConfigReader& reader, ModelSpec& model);
void ReadNemotron(ConfigReader& reader, ModelSpec& model);
void ReadCohere(ConfigReader& reader, ModelSpec& model);
void ReadCohere2(ConfigReader& reader, ModelSpec& model);
void ReadOlmo(ConfigReader& reader, ModelSpec& model);
void ReadOrion(ConfigReader& reader, ModelSpec& model);

// Llama and its relatives: RMSNorm, gated feed-forward, rotary positions.
void ReadLlama(ConfigReader& reader, ModelSpec& model);
void ReadMistral(ConfigReader& reader, ModelSpec& model);
void ReadQwen2(ConfigReader& reader, ModelSpec& model);
void ReadQwen3(ConfigReader& reader, ModelSpec& model);
void ReadPhi3(ConfigReader& reader, ModelSpec& model);
void ReadOlmo2(ConfigReader& reader, ModelSpec& model);
void ReadSmolLm3(ConfigReader& reader, ModelSpec& model);
void ReadGraniteMoeHybrid(ConfigReader& reader, ModelSpec& model);
void ReadGranite(ConfigReader& reader, ModelSpec& model);
void ReadInternLm2(ConfigReader& reader, ModelSpec& model);
void ReadInternLm3(ConfigReader& reader, ModelSpec& model);
void ReadOlmo3(ConfigReader& reader, ModelSpec& model);
void ReadMinistral3(ConfigReader& reader, ModelSpec& model);
void ReadGlm(ConfigReader& reader, ModelSpec& model);
void ReadGlm4(ConfigReader& reader, ModelSpec& model);
void ReadErnie45(ConfigReader& reader, ModelSpec& model);
void ReadHunYuanDense(ConfigReader& reader, ModelSpec& model);
void ReadSeedOss(ConfigReader& reader, ModelSpec& model);
void ReadExaone4(ConfigReader& reader, ModelSpec& model);
void ReadApertus(ConfigReader& reader, ModelSpec& model);
void ReadArcee(ConfigReader& reader, ModelSpec& model);
void ReadHelium(ConfigReader& reader, ModelSpec& model);
void ReadCwm(ConfigReader& reader, ModelSpec& model);

// The same, of checkpoints that carry their own code.
void ReadChatGlm(ConfigReader& reader, ModelSpec& model);
void ReadQwen(ConfigReader& reader, ModelSpec& model);
void ReadBaichuan(ConfigReader& reader, ModelSpec& model);
void ReadExaone(ConfigReader& reader, ModelSpec& model);
void ReadInternLm(ConfigReader& reader, ModelSpec& model);
void ReadMiniCpm(ConfigReader& reader, ModelSpec& model);
void ReadYi(ConfigReader& reader, ModelSpec& model);
void ReadXverse(ConfigReader& reader, ModelSpec& model);
void ReadSkywork(ConfigReader& reader, ModelSpec& model);

// Gemma: as Llama, with scaled embeddings.
void ReadGemma(ConfigReader& reader, ModelSpec& model);
void ReadGemma2(ConfigReader& reader, ModelSpec& model);
void ReadGemma3(ConfigReader& reader, ModelSpec& model);
void ReadVaultGemma(ConfigReader& reader, ModelSpec& model);

// Parts that several readers share.
struct LlamaDefaults {
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;  // 0: hidden / heads
  std::int64_t max_seq_len = 2048;
  double norm_eps = 1e-6;
  double rope_theta = 10000;
  bool tied = false;
  bool yarn_is_longrope = false;
  Activation activation = Activation::kSwiGlu;  // of files without one; says whether it is gated
};

// Reads what files of Llama's relatives have in common, but for the activation and windows. Biases are
// absent.
void ReadLlamaSizes(const LlamaDefaults& defaults, ConfigReader& reader, ModelSpec& model);

// The same with the activation, of types whose files always say these sizes.
void ReadNamedSizes(const LlamaDefaults& defaults, ConfigReader& reader, ModelSpec& model);

// Sets RMSNorm, SwiGLU and rotary positions, without biases.
void SetPartsOfLlama(ModelSpec& model);

// Reads the biases of all of attention's projections, from one field.
void ReadAttentionBias(std::string_view name, ConfigReader& reader, ModelSpec& model);

// Adds to what the model has beside its fields (ModelSpec::undescribed). For parts that change neither memory
// nor time noticeably: less than a thousandth of the parameters, and work that other parts hide.
void AddUndescribed(std::string_view part, ModelSpec& model);

// Sets attention_scale, or leaves it at 0 if `scale` is the usual 1 / sqrt(head_dim).
void SetAttentionScale(double scale, ModelSpec& model);

}  // namespace autocfg
