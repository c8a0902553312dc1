#include "search/hugging_face/model_families.h"

#include <algorithm>

namespace autocfg {

const std::vector<ModelFamily>& ModelFamilies() {
  static const auto* const kFamilies = new std::vector<ModelFamily>{
      {"openai-gpt", {"OpenAIGPTLMHeadModel"}, ReadOpenAiGpt},
      {"ctrl", {"CTRLLMHeadModel"}, ReadCtrl},
      {"gpt2", {"GPT2LMHeadModel"}, ReadGpt2},
      {"gpt_neo", {"GPTNeoForCausalLM"}, ReadGptNeo},
      {"gptj", {"GPTJForCausalLM"}, ReadGptJ},
      {"codegen", {"CodeGenForCausalLM"}, ReadCodeGen},
      {"gpt_neox", {"GPTNeoXForCausalLM"}, ReadGptNeoX},
      {"gpt_bigcode", {"GPTBigCodeForCausalLM"}, ReadGptBigCode},
      {"opt", {"OPTForCausalLM"}, ReadOpt},
      {"xglm", {"XGLMForCausalLM"}, ReadXglm},
      {"biogpt", {"BioGptForCausalLM"}, ReadBioGpt},
      {"bloom", {"BloomForCausalLM"}, ReadBloom},
      {"jais", {"JAISLMHeadModel"}, ReadJais},
      {"mpt", {"MPTForCausalLM", "MptForCausalLM"}, ReadMpt},
      {"falcon", {"FalconForCausalLM"}, ReadFalcon},
      {"RefinedWeb", {"RWForCausalLM", "FalconForCausalLM"}, ReadRefinedWeb},
      {"RefinedWebModel", {"RWForCausalLM", "FalconForCausalLM"}, ReadRefinedWebModel},
      {"starcoder2", {"Starcoder2ForCausalLM"}, ReadStarcoder2},
      {"phi", {"PhiForCausalLM"}, ReadPhi},
      {"persimmon", {"PersimmonForCausalLM"}, ReadPersimmon},
      {"stablelm", {"StableLmForCausalLM"}, ReadStableLm},
      {"stablelm_epoch", {"StableLMEpochForCausalLM"}, ReadStableLm},
      {"nemotron", {"NemotronForCausalLM"}, ReadNemotron},
      {"cohere", {"CohereForCausalLM"}, ReadCohere},
      {"cohere2", {"Cohere2ForCausalLM"}, ReadCohere2},
      {"olmo", {"OlmoForCausalLM"}, ReadOlmo},
      {"orion", {"OrionForCausalLM"}, ReadOrion},
      {"llama", {"LlamaForCausalLM"}, ReadLlama},
      {"mistral", {"MistralForCausalLM"}, ReadMistral},
      {"ministral", {"MinistralForCausalLM"}, ReadMistral},
      {"ministral3", {"Ministral3ForCausalLM"}, ReadMinistral3},
      {"mistral3", {"Mistral3ForConditionalGeneration"}, nullptr, {"mistral", "ministral3"}},
      {"qwen", {"QWenLMHeadModel"}, ReadQwen},
      {"qwen2", {"Qwen2ForCausalLM"}, ReadQwen2},
      {"qwen3", {"Qwen3ForCausalLM"}, ReadQwen3},
      {"phi3", {"Phi3ForCausalLM"}, ReadPhi3},
      {"olmo2", {"Olmo2ForCausalLM"}, ReadOlmo2},
      {"olmo3", {"Olmo3ForCausalLM"}, ReadOlmo3},
      {"smollm3", {"SmolLM3ForCausalLM"}, ReadSmolLm3},
      {"granite", {"GraniteForCausalLM"}, ReadGranite},
      {"granitemoehybrid", {"GraniteMoeHybridForCausalLM"}, ReadGraniteMoeHybrid},
      {"glm", {"GlmForCausalLM"}, ReadGlm},
      {"glm4", {"Glm4ForCausalLM"}, ReadGlm4},
      {"chatglm", {"ChatGLMForConditionalGeneration", "ChatGLMModel"}, ReadChatGlm},
      {"ernie4_5", {"Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"}, ReadErnie45},
      {"hunyuan_v1_dense", {"HunYuanDenseV1ForCausalLM"}, ReadHunYuanDense},
      {"seed_oss", {"SeedOssForCausalLM"}, ReadSeedOss},
      {"exaone", {"ExaoneForCausalLM"}, ReadExaone},
      {"exaone4", {"Exaone4ForCausalLM"}, ReadExaone4},
      {"apertus", {"ApertusForCausalLM"}, ReadApertus},
      {"arcee", {"ArceeForCausalLM"}, ReadArcee},
      {"helium", {"HeliumForCausalLM"}, ReadHelium},
      {"cwm", {"CwmForCausalLM"}, ReadCwm},
      {"baichuan", {"BaichuanForCausalLM", "BaiChuanForCausalLM"}, ReadBaichuan},
      {"internlm", {"InternLMForCausalLM"}, ReadInternLm},
      {"internlm2", {"InternLM2ForCausalLM"}, ReadInternLm2},
      {"internlm3", {"InternLM3ForCausalLM"}, ReadInternLm3},
      {"minicpm", {"MiniCPMForCausalLM"}, ReadMiniCpm},
      {"Yi", {"YiForCausalLM"}, ReadYi},
      {"aquila", {"AquilaForCausalLM", "AquilaModel"}, ReadXverse},
      {"xverse", {"XverseForCausalLM"}, ReadXverse},
      {"skywork", {"SkyworkForCausalLM"}, ReadSkywork},
      {"gemma", {"GemmaForCausalLM"}, ReadGemma},
      {"gemma2", {"Gemma2ForCausalLM"}, ReadGemma2},
      {"vaultgemma", {"VaultGemmaForCausalLM"}, ReadVaultGemma},
      {"gemma3", {"Gemma3ForConditionalGeneration"}, nullptr, {"gemma3_text"}},
      {"gemma3_text", {"Gemma3ForCausalLM"}, ReadGemma3},
  };
  return *kFamilies;
}

const ModelFamily* FindFamily(std::string_view type) {
  const std::vector<ModelFamily>& families = ModelFamilies();
  const auto found = std::find_if(families.begin(), families.end(),
                                  [type](const ModelFamily& family) { return family.type == type; });
  return found == families.end() ? nullptr : &*found;
}

}  // namespace autocfg
