#include "search/hugging_face/model_families.h"

#include <algorithm>

namespace autocfg {

const std::vector<ModelFamily>& ModelFamilies() {
  static const auto* const kFamilies = new std::vector<ModelFamily>{
      {"gpt2", "GPT2LMHeadModel", ReadGpt2},
      {"gpt_neox", "GPTNeoXForCausalLM", ReadGptNeoX},
      {"opt", "OPTForCausalLM", ReadOpt},
      {"bloom", "BloomForCausalLM", ReadBloom},
      {"falcon", "FalconForCausalLM", ReadFalcon},
      {"starcoder2", "Starcoder2ForCausalLM", ReadStarcoder2},
      {"llama", "LlamaForCausalLM", ReadLlama},
      {"mistral", "MistralForCausalLM", ReadMistral},
      {"mistral3", "Mistral3ForConditionalGeneration", ReadMistral, "mistral"},
      {"qwen2", "Qwen2ForCausalLM", ReadQwen2},
      {"qwen3", "Qwen3ForCausalLM", ReadQwen3},
      {"phi3", "Phi3ForCausalLM", ReadPhi3},
      {"olmo2", "Olmo2ForCausalLM", ReadOlmo2},
      {"smollm3", "SmolLM3ForCausalLM", ReadSmolLm3},
      {"granite", "GraniteForCausalLM", ReadGranite},
      {"internlm2", "InternLM2ForCausalLM", ReadInternLm2},
      {"internlm3", "InternLM3ForCausalLM", ReadInternLm3},
      {"gemma", "GemmaForCausalLM", ReadGemma},
      {"gemma2", "Gemma2ForCausalLM", ReadGemma2},
      {"gemma3", "Gemma3ForConditionalGeneration", ReadGemma3, "gemma3_text"},
      {"gemma3_text", "Gemma3ForCausalLM", ReadGemma3},
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
