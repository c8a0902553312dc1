// Compares parameter counts of imported config.json files with the published counts of the models. The fields
// are those of the released files that decide the sizes; what they leave out takes the default of the type.
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "search/hugging_face/hugging_face.h"
#include "search/hugging_face/model_families.h"
#include "tests/support/layer_cycle.h"

namespace autocfg {
namespace {

struct Published {
  std::string_view name;  // of the repository on huggingface.co
  std::int64_t parameters;
  std::string_view source;  // of the count
  std::string_view config;
};

constexpr std::string_view kTensors = "total of the repository's safetensors metadata";
constexpr std::string_view kCard = "the repository's model card";
constexpr std::string_view kShapes = "sum over the shapes that the released class gives its tensors";
constexpr std::string_view kPythia = "table of Biderman et al. 2023, Pythia";

constexpr Published kPublished[] = {
    {"openai-community/gpt2-xl", 1'557'611'200, "Radford et al. 2019",
     R"({"model_type": "gpt2", "n_layer": 48, "n_embd": 1600, "n_head": 25, "vocab_size": 50257, "n_positions": 1024})"},
    {"EleutherAI/pythia-70m", 70'426'624, kPythia,
     R"({"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "num_hidden_layers": 6, "hidden_size": 512,
         "num_attention_heads": 8, "intermediate_size": 2048, "vocab_size": 50304, "rotary_pct": 0.25,
         "rotary_emb_base": 10000, "use_parallel_residual": true, "tie_word_embeddings": false})"},
    {"EleutherAI/pythia-6.9b", 6'857'302'016, kPythia,
     R"({"model_type": "gpt_neox", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
         "intermediate_size": 16384, "vocab_size": 50432, "rotary_pct": 0.25})"},
    {"EleutherAI/gpt-neox-20b", 20'554'567'680, kCard,
     R"({"model_type": "gpt_neox", "num_hidden_layers": 44, "hidden_size": 6144, "num_attention_heads": 64,
         "intermediate_size": 24576, "vocab_size": 50432, "rotary_pct": 0.25, "hidden_act": "gelu_fast"})"},
    {"facebook/opt-125m", 125'239'296, "sum of the released tensors",
     R"({"model_type": "opt", "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "ffn_dim": 3072,
         "vocab_size": 50272, "word_embed_proj_dim": 768, "do_layer_norm_before": true,
         "_remove_final_layer_norm": false, "max_position_embeddings": 2048})"},
    {"facebook/opt-6.7b", 6'658'473'984, "sum of the released tensors",
     R"({"model_type": "opt", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "ffn_dim": 16384,
         "vocab_size": 50272, "word_embed_proj_dim": 4096})"},
    {"bigscience/bloom-560m", 559'214'592, kCard,
     R"({"model_type": "bloom", "n_layer": 24, "hidden_size": 1024, "num_attention_heads": 16, "vocab_size": 250880})"},
    {"bigscience/bloom", 176'247'271'424, kCard,
     R"({"model_type": "bloom", "n_layer": 70, "n_embed": 14336, "n_head": 112, "vocab_size": 250880})"},
    {"tiiuae/falcon-7b", 6'921'720'704, "sum of the released tensors, the tied output layer once",
     R"({"model_type": "falcon", "architectures": ["FalconForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4544,
         "num_attention_heads": 71, "vocab_size": 65024, "multi_query": true, "new_decoder_architecture": false,
         "parallel_attn": true, "bias": false, "alibi": false})"},
    {"tiiuae/falcon-40b", 41'303'293'952, "sum of the released tensors, the tied output layer once",
     R"({"model_type": "falcon", "num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128,
         "num_kv_heads": 8, "vocab_size": 65024, "new_decoder_architecture": true, "parallel_attn": true, "bias": false})"},
    {"tiiuae/falcon-rw-1b", 1'311'625'216, "sum of the released tensors",
     R"({"model_type": "falcon", "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 32,
         "vocab_size": 50304, "multi_query": false, "parallel_attn": false, "bias": true, "alibi": true})"},
    {"bigcode/starcoder2-3b", 3'030'371'328, kTensors,
     R"({"model_type": "starcoder2", "num_hidden_layers": 30, "hidden_size": 3072, "num_attention_heads": 24,
         "num_key_value_heads": 2, "intermediate_size": 12288, "vocab_size": 49152, "use_bias": true,
         "sliding_window": 4096, "max_position_embeddings": 16384, "norm_type": "layer_norm", "mlp_type": "default"})"},
    {"meta-llama/Meta-Llama-3-8B", 8'030'261'248, kTensors,
     R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256})"},
    {"meta-llama/Llama-3.2-1B", 1'235'814'400, kTensors,
     R"({"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256,
         "tie_word_embeddings": true})"},
    {"mistralai/Mistral-7B-v0.1", 7'241'732'096, kTensors,
     R"({"model_type": "mistral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "sliding_window": 4096,
         "max_position_embeddings": 32768})"},
    {"mistralai/Mistral-Nemo-Base-2407", 12'247'782'400, kTensors,
     R"({"model_type": "mistral", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336, "vocab_size": 131072,
         "sliding_window": null})"},
    {"mistralai/Mistral-Small-3.1-24B-Base-2503", 23'572'403'200,
     "total of Mistral-Small-24B-Base-2501, its text part",
     R"({"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"], "text_config": {
         "model_type": "mistral", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 32768, "vocab_size": 131072,
         "sliding_window": null}, "vision_config": {"model_type": "pixtral"}})"},
    {"Qwen/Qwen2.5-0.5B", 494'032'768, kTensors,
     R"({"model_type": "qwen2", "num_hidden_layers": 24, "hidden_size": 896, "num_attention_heads": 14,
         "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": true,
         "use_sliding_window": false, "sliding_window": 32768, "max_window_layers": 24})"},
    {"Qwen/Qwen2.5-7B", 7'615'616'512, kTensors,
     R"({"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
         "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": false})"},
    {"Qwen/Qwen3-8B", 8'190'735'360, kTensors,
     R"({"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
         "sliding_window": null})"},
    {"Qwen/Qwen3-4B", 4'022'468'096, kTensors,
     R"({"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 2560, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9728, "vocab_size": 151936,
         "tie_word_embeddings": true})"},
    {"microsoft/Phi-3-mini-4k-instruct", 3'821'079'552, kTensors,
     R"({"model_type": "phi3", "num_hidden_layers": 32, "hidden_size": 3072, "num_attention_heads": 32,
         "num_key_value_heads": 32, "intermediate_size": 8192, "vocab_size": 32064, "sliding_window": 2047})"},
    {"microsoft/phi-4", 14'659'507'200, kTensors,
     R"({"model_type": "phi3", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 40,
         "num_key_value_heads": 10, "intermediate_size": 17920, "vocab_size": 100352, "max_position_embeddings": 16384,
         "attention_bias": false, "sliding_window": null})"},
    {"microsoft/Phi-4-mini-instruct", 3'836'021'760, kTensors,
     R"({"model_type": "phi3", "num_hidden_layers": 32, "hidden_size": 3072, "num_attention_heads": 24,
         "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 200064, "partial_rotary_factor": 0.75,
         "tie_word_embeddings": true, "max_position_embeddings": 131072, "sliding_window": 262144})"},
    {"allenai/OLMo-2-1124-7B", 7'298'617'344, kTensors,
     R"({"model_type": "olmo2", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 100352, "max_position_embeddings": 4096})"},
    {"HuggingFaceTB/SmolLM3-3B", 3'075'098'624, kTensors,
     R"({"model_type": "smollm3", "num_hidden_layers": 36, "hidden_size": 2048, "num_attention_heads": 16,
         "num_key_value_heads": 4, "intermediate_size": 11008, "vocab_size": 128256, "no_rope_layer_interval": 4,
         "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0,
         1, 1, 1, 0, 1, 1, 1, 0], "use_sliding_window": false})"},
    {"ibm-granite/granite-3.0-8b-base", 8'170'848'256, kTensors,
     R"({"model_type": "granite", "num_hidden_layers": 40, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 12800, "vocab_size": 49155, "tie_word_embeddings": true,
         "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.0078125,
         "logits_scaling": 16.0})"},
    {"internlm/internlm2-7b", 7'737'708'544, kTensors,
     R"({"model_type": "internlm2", "architectures": ["InternLM2ForCausalLM"], "num_hidden_layers": 32,
         "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
         "vocab_size": 92544, "bias": false, "tie_word_embeddings": false})"},
    {"internlm/internlm3-8b-instruct", 8'804'241'408, kTensors,
     R"({"model_type": "internlm3", "num_hidden_layers": 48, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 10240, "vocab_size": 128512, "bias": false,
         "qkv_bias": false})"},
    {"google/gemma-2b", 2'506'172'416, kTensors,
     R"({"model_type": "gemma", "num_hidden_layers": 18, "hidden_size": 2048, "num_attention_heads": 8,
         "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 16384, "vocab_size": 256000,
         "hidden_act": "gelu"})"},
    {"google/gemma-7b", 8'537'680'896, kTensors,
     R"({"model_type": "gemma", "num_hidden_layers": 28, "hidden_size": 3072, "num_attention_heads": 16,
         "num_key_value_heads": 16, "head_dim": 256, "intermediate_size": 24576, "vocab_size": 256000})"},
    {"google/gemma-2-2b", 2'614'341'888, kTensors,
     R"({"model_type": "gemma2", "num_hidden_layers": 26, "hidden_size": 2304, "num_attention_heads": 8,
         "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 9216, "vocab_size": 256000,
         "query_pre_attn_scalar": 256, "sliding_window": 4096})"},
    {"google/gemma-2-27b", 27'227'128'320, kTensors,
     R"({"model_type": "gemma2", "num_hidden_layers": 46, "hidden_size": 4608, "num_attention_heads": 32,
         "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 36864, "vocab_size": 256000,
         "query_pre_attn_scalar": 144})"},
    {"google/gemma-3-1b-pt", 999'885'952, kTensors,
     R"({"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "num_hidden_layers": 26,
         "hidden_size": 1152, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
         "intermediate_size": 6912, "vocab_size": 262144, "sliding_window": 512, "sliding_window_pattern": 6,
         "query_pre_attn_scalar": 256, "max_position_embeddings": 32768})"},
    {"google/gemma-3-4b-pt", 3'880'263'168, "sum of the tensors of its language model",
     R"({"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "text_config": {
         "model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560, "intermediate_size": 10240,
         "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
         "vision_config": {"model_type": "siglip_vision_model"}})"},
    {"EleutherAI/gpt-j-6b", 6'053'381'344, kCard,
     R"({"model_type": "gptj", "architectures": ["GPTJForCausalLM"], "n_layer": 28, "n_embd": 4096, "n_head": 16,
         "n_inner": null, "n_positions": 2048, "rotary": true, "rotary_dim": 64, "vocab_size": 50400,
         "activation_function": "gelu_new", "tie_word_embeddings": false})"},
    {"EleutherAI/gpt-neo-1.3B", 1'315'575'808, "sum of the released tensors",
     R"({"model_type": "gpt_neo", "architectures": ["GPTNeoForCausalLM"], "num_layers": 24, "hidden_size": 2048,
         "num_heads": 16, "intermediate_size": null, "vocab_size": 50257, "max_position_embeddings": 2048,
         "window_size": 256, "attention_types": [[["global", "local"], 12]], "activation_function": "gelu_new"})"},
    {"Salesforce/codegen-350M-mono", 356'712'448, "sum of the released tensors",
     R"({"model_type": "codegen", "architectures": ["CodeGenForCausalLM"], "n_layer": 20, "n_embd": 1024,
         "n_head": 16, "n_inner": null, "n_positions": 2048, "rotary_dim": 32, "vocab_size": 51200,
         "tie_word_embeddings": false})"},
    {"bigcode/starcoder", 15'517'456'384, kTensors,
     R"({"model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"], "n_layer": 40, "n_embd": 6144,
         "n_head": 48, "n_inner": 24576, "n_positions": 8192, "vocab_size": 49152, "multi_query": true,
         "activation_function": "gelu"})"},
    {"facebook/xglm-564M", 564'463'616, "sum of the released tensors",
     R"({"model_type": "xglm", "architectures": ["XGLMForCausalLM"], "num_layers": 24, "d_model": 1024,
         "attention_heads": 16, "ffn_dim": 4096, "vocab_size": 256008, "max_position_embeddings": 2048,
         "activation_function": "gelu", "scale_embedding": true})"},
    {"microsoft/biogpt", 346'763'264, "sum of the released tensors",
     R"({"model_type": "biogpt", "architectures": ["BioGptForCausalLM"], "num_hidden_layers": 24,
         "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 42384,
         "max_position_embeddings": 1024, "hidden_act": "gelu", "scale_embedding": true})"},
    {"mosaicml/mpt-7b", 6'649'286'656, kTensors,
     R"({"model_type": "mpt", "architectures": ["MPTForCausalLM"], "n_layers": 32, "d_model": 4096, "n_heads": 32,
         "expansion_ratio": 4, "vocab_size": 50432, "max_seq_len": 2048, "no_bias": true,
         "attn_config": {"alibi": true, "attn_type": "multihead_attention", "clip_qkv": null, "qk_ln": false}})"},
    {"tiiuae/falcon-7b, older file", 6'921'720'704, "sum of the released tensors, the tied output layer once",
     R"({"model_type": "RefinedWebModel", "architectures": ["RWForCausalLM"], "n_layer": 32, "hidden_size": 4544,
         "n_head": 71, "vocab_size": 65024, "multi_query": true, "parallel_attn": true, "bias": false,
         "alibi": false})"},
    {"tiiuae/falcon-40b, older file", 41'303'293'952,
     "sum of the released tensors, the tied output layer once",
     R"({"model_type": "RefinedWeb", "architectures": ["RWForCausalLM"], "n_layer": 60, "hidden_size": 8192,
         "n_head": 128, "n_head_kv": 8, "vocab_size": 65024, "parallel_attn": true, "bias": false,
         "alibi": false})"},
    {"microsoft/phi-2", 2'779'683'840, kTensors,
     R"({"model_type": "phi", "architectures": ["PhiForCausalLM"], "num_hidden_layers": 32, "hidden_size": 2560,
         "num_attention_heads": 32, "num_key_value_heads": null, "intermediate_size": 10240, "vocab_size": 51200,
         "max_position_embeddings": 2048, "partial_rotary_factor": 0.4, "qk_layernorm": false,
         "hidden_act": "gelu_new", "layer_norm_eps": 1e-05, "tie_word_embeddings": false})"},
    {"microsoft/phi-1_5", 1'418'270'720, kTensors,
     R"({"model_type": "phi", "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 32,
         "intermediate_size": 8192, "vocab_size": 51200, "partial_rotary_factor": 0.5, "hidden_act": "gelu_new"})"},
    {"adept/persimmon-8b-base", 9'397'175'296, kShapes,
     R"({"model_type": "persimmon", "architectures": ["PersimmonForCausalLM"], "num_hidden_layers": 36,
         "hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16384, "vocab_size": 262144,
         "hidden_act": "relu2", "rope_theta": 25000.0, "qk_layernorm": true})"},
    {"stabilityai/stablelm-2-1_6b", 1'644'515'328, kTensors,
     R"({"model_type": "stablelm", "architectures": ["StableLmForCausalLM"], "num_hidden_layers": 24,
         "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 5632,
         "vocab_size": 100352, "partial_rotary_factor": 0.25, "use_qkv_bias": true, "layer_norm_eps": 1e-05})"},
    {"stabilityai/stablelm-2-12b", 12'143'182'848, kTensors,
     R"({"model_type": "stablelm", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 13824, "vocab_size": 100352, "partial_rotary_factor": 0.25,
         "use_qkv_bias": false, "use_parallel_residual": true, "qk_layernorm": true})"},
    {"stabilityai/stablelm-3b-4e1t", 2'795'443'200, kCard,
     R"({"model_type": "stablelm_epoch", "architectures": ["StableLMEpochForCausalLM"], "num_hidden_layers": 32,
         "hidden_size": 2560, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 6912,
         "vocab_size": 50304, "rope_pct": 0.25, "norm_eps": 1e-05, "tie_word_embeddings": false})"},
    {"nvidia/Minitron-8B-Base", 8'270'000'000, "8.27 billion: table of Muralidharan et al. 2024, Minitron",
     R"({"model_type": "nemotron", "architectures": ["NemotronForCausalLM"], "num_hidden_layers": 32,
         "hidden_size": 4096, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 16384, "vocab_size": 256000, "hidden_act": "relu2", "partial_rotary_factor": 0.5})"},
    {"CohereForAI/c4ai-command-r-v01", 34'980'831'232, kTensors,
     R"({"model_type": "cohere", "architectures": ["CohereForCausalLM"], "num_hidden_layers": 40,
         "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 22528,
         "vocab_size": 256000, "logit_scale": 0.0625, "max_position_embeddings": 8192})"},
    {"CohereForAI/c4ai-command-r-plus", 103'810'674'688, kTensors,
     R"({"model_type": "cohere", "num_hidden_layers": 64, "hidden_size": 12288, "num_attention_heads": 96,
         "num_key_value_heads": 8, "intermediate_size": 33792, "vocab_size": 256000, "logit_scale": 0.8333333333,
         "use_qk_norm": true})"},
    {"CohereForAI/c4ai-command-r7b-12-2024", 8'028'033'024, kTensors,
     R"({"model_type": "cohere2", "architectures": ["Cohere2ForCausalLM"], "num_hidden_layers": 32,
         "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
         "vocab_size": 256000, "logit_scale": 0.25, "sliding_window": 4096, "sliding_window_pattern": 4,
         "max_position_embeddings": 132096})"},
    {"CohereForAI/c4ai-command-a-03-2025", 111'057'580'032, kTensors,
     R"({"model_type": "cohere2", "num_hidden_layers": 64, "hidden_size": 12288, "num_attention_heads": 96,
         "num_key_value_heads": 8, "intermediate_size": 36864, "vocab_size": 256000, "logit_scale": 0.25,
         "sliding_window": 4096, "sliding_window_pattern": 4, "max_position_embeddings": 131072})"},
    {"allenai/OLMo-7B-hf", 6'888'095'744, kTensors,
     R"({"model_type": "olmo", "architectures": ["OlmoForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096,
         "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 50304,
         "clip_qkv": null, "tie_word_embeddings": false})"},
    {"allenai/OLMo-1B-hf", 1'176'764'416, kTensors,
     R"({"model_type": "olmo", "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 16,
         "num_key_value_heads": 16, "intermediate_size": 8192, "vocab_size": 50304, "tie_word_embeddings": true})"},
    {"OrionStarAI/Orion-14B-Base", 14'498'703'360, kShapes,
     R"({"model_type": "orion", "architectures": ["OrionForCausalLM"], "num_hidden_layers": 40,
         "hidden_size": 5120, "num_attention_heads": 40, "num_key_value_heads": 40, "intermediate_size": 15360,
         "vocab_size": 84608, "rms_norm_eps": 1e-05, "tie_word_embeddings": false})"},
    {"mistralai/Ministral-8B-Instruct-2410", 8'019'808'256, kTensors,
     R"({"model_type": "ministral", "architectures": ["MinistralForCausalLM"], "num_hidden_layers": 36,
         "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 12288, "vocab_size": 131072, "max_position_embeddings": 32768,
         "sliding_window": 32768, "rope_theta": 100000000.0})"},
    {"mistralai/Ministral-3-8B-Base-2512", 8'489'553'920, kShapes,
     R"({"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"], "text_config": {
         "model_type": "ministral3", "num_hidden_layers": 34, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336, "vocab_size": 131072,
         "sliding_window": null, "rope_parameters": {"type": "yarn", "rope_type": "yarn", "rope_theta": 1000000.0,
         "factor": 16.0, "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0,
         "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}},
         "vision_config": {"model_type": "pixtral"}})"},
    {"mistralai/Ministral-3-8B-Base-2512, its text part", 8'489'553'920, kShapes,
     R"({"model_type": "ministral3", "num_hidden_layers": 34, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336, "vocab_size": 131072})"},
    {"Qwen/Qwen-7B", 7'721'324'544, kTensors,
     R"({"model_type": "qwen", "architectures": ["QWenLMHeadModel"], "num_hidden_layers": 32, "hidden_size": 4096,
         "num_attention_heads": 32, "intermediate_size": 22016, "vocab_size": 151936, "kv_channels": 128,
         "layer_norm_epsilon": 1e-06, "max_position_embeddings": 8192, "no_bias": true, "rotary_emb_base": 10000,
         "rotary_pct": 1.0, "seq_length": 8192, "tie_word_embeddings": false})"},
    {"allenai/Olmo-3-1025-7B", 7'298'011'136, kTensors,
     R"({"model_type": "olmo3", "architectures": ["Olmo3ForCausalLM"], "num_hidden_layers": 32,
         "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008,
         "vocab_size": 100278, "max_position_embeddings": 65536, "rope_theta": 500000, "sliding_window": 4096,
         "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192,
         "attention_factor": 1.2079441541679836, "beta_fast": 32, "beta_slow": 1}})"},
    {"allenai/Olmo-3-1125-32B", 32'233'522'176, kTensors,
     R"({"model_type": "olmo3", "num_hidden_layers": 64, "hidden_size": 5120, "num_attention_heads": 40,
         "num_key_value_heads": 8, "intermediate_size": 27648, "vocab_size": 100278, "sliding_window": 4096,
         "max_position_embeddings": 65536})"},
    {"THUDM/glm-4-9b-hf", 9'399'951'360, kTensors,
     R"({"model_type": "glm", "architectures": ["GlmForCausalLM"], "num_hidden_layers": 40, "hidden_size": 4096,
         "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 13696,
         "vocab_size": 151552, "attention_bias": true, "partial_rotary_factor": 0.5, "rms_norm_eps": 1.5625e-07,
         "max_position_embeddings": 8192})"},
    {"THUDM/GLM-4-9B-0414", 9'400'279'040, kTensors,
     R"({"model_type": "glm4", "architectures": ["Glm4ForCausalLM"], "num_hidden_layers": 40, "hidden_size": 4096,
         "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 13696,
         "vocab_size": 151552, "attention_bias": true, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05,
         "max_position_embeddings": 32768})"},
    {"THUDM/GLM-4-32B-0414", 32'566'081'536, kTensors,
     R"({"model_type": "glm4", "num_hidden_layers": 61, "hidden_size": 6144, "num_attention_heads": 48,
         "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 23040, "vocab_size": 151552,
         "attention_bias": false, "partial_rotary_factor": 0.5})"},
    {"THUDM/chatglm3-6b", 6'243'584'032, kTensors,
     R"({"model_type": "chatglm", "architectures": ["ChatGLMModel"], "num_layers": 28, "hidden_size": 4096,
         "num_attention_heads": 32, "kv_channels": 128, "multi_query_attention": true, "multi_query_group_num": 2,
         "ffn_hidden_size": 13696, "padded_vocab_size": 65024, "seq_length": 8192, "add_bias_linear": false,
         "add_qkv_bias": true, "rmsnorm": true, "layernorm_epsilon": 1e-05, "post_layer_norm": true,
         "apply_residual_connection_post_layernorm": false, "tie_word_embeddings": false})"},
    {"baidu/ERNIE-4.5-0.3B-PT", 360'748'032, kTensors,
     R"({"model_type": "ernie4_5", "architectures": ["Ernie4_5ForCausalLM"], "num_hidden_layers": 18,
         "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128,
         "intermediate_size": 3072, "vocab_size": 103424, "use_bias": false, "tie_word_embeddings": true})"},
    {"tencent/Hunyuan-7B-Pretrain", 7'504'568'320, kTensors,
     R"({"model_type": "hunyuan_v1_dense", "architectures": ["HunYuanDenseV1ForCausalLM"],
         "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
         "head_dim": 128, "intermediate_size": 14336, "vocab_size": 128167, "use_qk_norm": true, "use_cla": false,
         "tie_word_embeddings": true, "max_position_embeddings": 32768, "rope_scaling": {"alpha": 1000.0,
         "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
         "type": "dynamic"}})"},
    {"ByteDance-Seed/Seed-OSS-36B-Base", 36'151'104'512, kTensors,
     R"({"model_type": "seed_oss", "architectures": ["SeedOssForCausalLM"], "num_hidden_layers": 64,
         "hidden_size": 5120, "num_attention_heads": 80, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 27648, "vocab_size": 155136, "attention_bias": true, "attention_out_bias": false,
         "mlp_bias": false, "rope_scaling": {"rope_type": "default"}, "rope_theta": 10000000.0})"},
    {"LGAI-EXAONE/EXAONE-3.0-7.8B-Instruct", 7'818'448'896, kTensors,
     R"({"model_type": "exaone", "architectures": ["ExaoneForCausalLM"], "num_layers": 32, "hidden_size": 4096,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 102400,
         "activation_function": "silu", "layer_norm_epsilon": 1e-05, "max_position_embeddings": 4096,
         "rope_theta": 500000.0, "tie_word_embeddings": false})"},
    {"LGAI-EXAONE/EXAONE-3.5-2.4B-Instruct", 2'405'327'360, kTensors,
     R"({"model_type": "exaone", "num_layers": 30, "hidden_size": 2560, "num_attention_heads": 32,
         "num_key_value_heads": 8, "head_dim": 80, "intermediate_size": 7168, "vocab_size": 102400,
         "activation_function": "silu", "tie_word_embeddings": true})"},
    {"LGAI-EXAONE/EXAONE-4.0-32B", 32'003'216'384, kTensors,
     R"({"model_type": "exaone4", "architectures": ["Exaone4ForCausalLM"], "num_hidden_layers": 64,
         "hidden_size": 5120, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 27392, "vocab_size": 102400, "sliding_window": 4096,
         "sliding_window_pattern": "LLLG", "max_position_embeddings": 131072, "rope_theta": 1000000})"},
    {"swiss-ai/Apertus-8B-2509", 8'053'338'176, kTensors,
     R"({"model_type": "apertus", "architectures": ["ApertusForCausalLM"], "num_hidden_layers": 32,
         "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 21504,
         "vocab_size": 131072, "hidden_act": "xielu", "qk_norm": true, "post_norm": false, "mlp_bias": false,
         "attention_bias": false, "tie_word_embeddings": false, "rope_theta": 12000000})"},
    {"arcee-ai/AFM-4.5B-Base", 4'619'184'640, kShapes,
     R"({"model_type": "arcee", "architectures": ["ArceeForCausalLM"], "num_hidden_layers": 36,
         "hidden_size": 2560, "num_attention_heads": 20, "num_key_value_heads": 4, "head_dim": 128,
         "intermediate_size": 18432, "vocab_size": 128004, "hidden_act": "relu2", "mlp_bias": false,
         "attention_bias": false, "tie_word_embeddings": false})"},
    {"kyutai/helium-1-preview-2b", 2'172'643'840, kShapes,
     R"({"model_type": "helium", "architectures": ["HeliumForCausalLM"], "num_hidden_layers": 24,
         "hidden_size": 2560, "num_attention_heads": 20, "num_key_value_heads": 20, "head_dim": 128,
         "intermediate_size": 7040, "vocab_size": 48000, "rope_theta": 100000.0, "tie_word_embeddings": false})"},
    {"facebook/cwm", 32'581'097'472, kShapes,
     R"({"model_type": "cwm", "architectures": ["CwmForCausalLM"], "num_hidden_layers": 64, "hidden_size": 6144,
         "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 21504,
         "vocab_size": 128256, "sliding_window": 8192, "max_position_embeddings": 131072,
         "tie_word_embeddings": false})"},
    {"baichuan-inc/Baichuan2-7B-Base", 7'505'973'248, kTensors,
     R"({"model_type": "baichuan", "architectures": ["BaichuanForCausalLM"], "num_hidden_layers": 32,
         "hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 125696,
         "max_position_embeddings": 4096, "model_max_length": 4096, "tie_word_embeddings": false})"},
    {"baichuan-inc/Baichuan2-13B-Base", 13'896'668'160, kTensors,
     R"({"model_type": "baichuan", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 40,
         "intermediate_size": 13696, "vocab_size": 125696, "model_max_length": 4096,
         "tie_word_embeddings": false})"},
    {"internlm/internlm-7b", 7'321'948'160, kShapes,
     R"({"model_type": "internlm", "architectures": ["InternLMForCausalLM"], "num_hidden_layers": 32,
         "hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 103168,
         "bias": true, "tie_word_embeddings": false})"},
    {"openbmb/MiniCPM-2B-sft-bf16", 2'724'880'896, kTensors,
     R"({"model_type": "minicpm", "architectures": ["MiniCPMForCausalLM"], "num_hidden_layers": 40,
         "hidden_size": 2304, "num_attention_heads": 36, "num_key_value_heads": 36, "intermediate_size": 5760,
         "vocab_size": 122753, "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256,
         "max_position_embeddings": 4096})"},
    {"01-ai/Yi-6B, older file", 6'061'035'520, kTensors,
     R"({"model_type": "Yi", "architectures": ["YiForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096,
         "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 11008, "vocab_size": 64000,
         "max_position_embeddings": 4096, "tie_word_embeddings": false})"},
    {"xverse/XVERSE-13B", 13'715'031'040, kShapes,
     R"({"model_type": "xverse", "architectures": ["XverseForCausalLM"], "num_hidden_layers": 40,
         "hidden_size": 5120, "num_attention_heads": 40, "intermediate_size": 13824, "vocab_size": 100278,
         "max_position_embeddings": 8192, "tie_word_embeddings": false})"},
    {"Skywork/Skywork-13B-base", 13'854'113'280, kShapes,
     R"({"model_type": "skywork", "architectures": ["SkyworkForCausalLM"], "num_hidden_layers": 52,
         "hidden_size": 4608, "num_attention_heads": 36, "num_key_value_heads": 36, "intermediate_size": 12288,
         "vocab_size": 65519, "max_position_embeddings": 4096, "tie_word_embeddings": false})"},
    {"google/vaultgemma-1b", 1'038'741'120, kTensors,
     R"({"model_type": "vaultgemma", "architectures": ["VaultGemmaForCausalLM"], "num_hidden_layers": 26,
         "hidden_size": 1152, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 256,
         "intermediate_size": 6912, "vocab_size": 256000, "sliding_window": 512, "query_pre_attn_scalar": 256,
         "attn_logit_softcapping": null, "final_logit_softcapping": null, "max_position_embeddings": 1024})"},
    {"openai-community/openai-gpt", 116'534'784, kShapes,
     R"({"model_type": "openai-gpt", "architectures": ["OpenAIGPTLMHeadModel"], "n_layer": 12, "n_embd": 768,
         "n_head": 12, "n_positions": 512, "vocab_size": 40478, "afn": "gelu"})"},
    {"Salesforce/ctrl", 1'637'964'550, kShapes,
     R"({"model_type": "ctrl", "architectures": ["CTRLLMHeadModel"], "n_layer": 48, "n_embd": 1280, "n_head": 16,
         "dff": 8192, "n_positions": 256, "vocab_size": 246534, "layer_norm_epsilon": 1e-06})"},
    {"core42/jais-13b", 13'020'811'920, kShapes,
     R"({"model_type": "jais", "architectures": ["JAISLMHeadModel"], "n_layer": 40, "n_embd": 5120, "n_head": 40,
         "n_inner": 13653, "n_positions": 2048, "vocab_size": 84992, "activation_function": "swiglu",
         "position_embedding_type": "alibi", "embeddings_scale": 14.6, "width_scale": 0.11100000000000002})"},
    {"ibm-granite/granite-4.0-micro-base", 3'402'836'480, kShapes,
     R"({"model_type": "granitemoehybrid", "architectures": ["GraniteMoeHybridForCausalLM"],
         "num_hidden_layers": 40, "hidden_size": 2560, "num_attention_heads": 40, "num_key_value_heads": 8,
         "intermediate_size": 8192, "shared_intermediate_size": 8192, "vocab_size": 100352, "num_local_experts": 0,
         "mamba_d_state": 256, "position_embedding_type": "rope", "tie_word_embeddings": true,
         "layer_types": ["attention", "attention", "attention", "attention", "attention", "attention",
         "attention", "attention", "attention", "attention", "attention", "attention", "attention",
         "attention", "attention", "attention", "attention", "attention", "attention", "attention",
         "attention", "attention", "attention", "attention", "attention", "attention", "attention",
         "attention", "attention", "attention", "attention", "attention", "attention", "attention",
         "attention", "attention", "attention", "attention", "attention", "attention"], "embedding_multiplier": 12,
         "residual_multiplier": 0.22, "attention_multiplier": 0.015625, "logits_scaling": 10})"},
    {"BAAI/Aquila2-7B", 7'295'537'152, kShapes,
     R"({"model_type": "aquila", "architectures": ["AquilaForCausalLM"], "num_hidden_layers": 32,
         "hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 100008,
         "max_position_embeddings": 2048, "tie_word_embeddings": false})"},
};

nlohmann::ordered_json Config(std::string_view name) {
  for (const Published& model : kPublished) {
    if (model.name == name) return nlohmann::ordered_json::parse(model.config);
  }
  ADD_FAILURE() << name;
  return {};
}

ModelSpec Imported(std::string_view name) { return *ImportHuggingFace(Config(name)); }

using Runs = std::vector<LayerRun>;

// The runs of `layers` layers whose kinds repeat.
Runs Repeated(const Runs& cycle, std::int64_t layers) {
  ModelSpec model{.rope_theta = 1, .layer_kinds = cycle};
  test::SetLayers(model, layers);
  return model.layer_kinds;
}

TEST(PublishedModels, ParameterCounts) {
  std::set<std::string> types;
  for (const Published& published : kPublished) {
    const auto json = nlohmann::ordered_json::parse(published.config);
    const auto model = ImportHuggingFace(json);
    ASSERT_TRUE(model.ok()) << published.name << ": " << model.status();
    types.insert(json["model_type"]);
    const double error =
        static_cast<double>(ParameterCount(*model)) / static_cast<double>(published.parameters) - 1;
    EXPECT_LE(std::abs(error), 1e-3) << published.name << " has " << ParameterCount(*model) << ", not "
                                     << published.parameters << " (" << published.source << ")";
  }
  for (const ModelFamily& family : ModelFamilies())
    EXPECT_TRUE(types.contains(std::string(family.type))) << "no model of type " << family.type;
}

// What sets each type apart from Llama and GPT-2.
TEST(PublishedModels, Gpt) {
  const ModelSpec pythia = Imported("EleutherAI/pythia-70m");
  EXPECT_EQ(pythia.activation, Activation::kGeluErf);
  EXPECT_EQ(pythia.norm, Norm::kLayerNorm);
  EXPECT_EQ(pythia.position, Position::kRope);
  EXPECT_TRUE(pythia.parallel_residual);
  EXPECT_FALSE(pythia.shared_norm || pythia.tied_embeddings);
  EXPECT_TRUE(pythia.qkv_bias && pythia.attention_out_bias && pythia.mlp_bias);
  EXPECT_EQ(RotaryDims(pythia), 16);
  EXPECT_EQ(Imported("EleutherAI/gpt-neox-20b").activation, Activation::kGelu);
  const ModelSpec opt = Imported("facebook/opt-125m");
  EXPECT_EQ(opt.activation, Activation::kRelu);
  EXPECT_EQ(opt.position, Position::kLearned);
  EXPECT_TRUE(opt.tied_embeddings);
  const ModelSpec bloom = Imported("bigscience/bloom");
  EXPECT_EQ(bloom.position, Position::kAlibi);
  EXPECT_TRUE(bloom.embedding_norm && bloom.tied_embeddings);
  EXPECT_EQ(bloom.max_seq_len, 2048);
  const ModelSpec starcoder = Imported("bigcode/starcoder2-3b");
  EXPECT_EQ(starcoder.norm, Norm::kLayerNorm);
  EXPECT_EQ(starcoder.activation, Activation::kGelu);
  EXPECT_EQ(starcoder.layer_kinds, (Runs{{.layers = 30, .window = 4096}}));
  EXPECT_EQ(starcoder.init_std, 0.018042);
}

TEST(PublishedModels, Falcon) {
  const ModelSpec small = Imported("tiiuae/falcon-7b");
  EXPECT_EQ(small.kv_heads, 1);
  EXPECT_TRUE(small.parallel_residual && small.shared_norm);
  EXPECT_FALSE(small.qkv_bias || small.attention_out_bias || small.mlp_bias);
  EXPECT_EQ(small.position, Position::kRope);
  const ModelSpec large = Imported("tiiuae/falcon-40b");
  EXPECT_EQ(large.kv_heads, 8);
  EXPECT_TRUE(large.parallel_residual);
  EXPECT_FALSE(large.shared_norm);
  const ModelSpec older = Imported("tiiuae/falcon-rw-1b");
  EXPECT_EQ(older.kv_heads, 32);
  EXPECT_FALSE(older.parallel_residual || older.shared_norm);
  EXPECT_EQ(older.position, Position::kAlibi);
  EXPECT_TRUE(older.qkv_bias);
}

TEST(PublishedModels, Llamas) {
  EXPECT_EQ(Imported("mistralai/Mistral-7B-v0.1").layer_kinds, (Runs{{.layers = 32, .window = 4096}}));
  EXPECT_EQ(Imported("mistralai/Mistral-Nemo-Base-2407").layer_kinds, Runs()) << "null is none";
  EXPECT_EQ(Imported("mistralai/Mistral-Small-3.1-24B-Base-2503").name, "mistral3");
  const ModelSpec qwen2 = Imported("Qwen/Qwen2.5-0.5B");
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.attention_out_bias || qwen2.mlp_bias);
  EXPECT_EQ(qwen2.layer_kinds, Runs());
  const ModelSpec qwen3 = Imported("Qwen/Qwen3-8B");
  EXPECT_EQ(qwen3.qk_norm, QkNorm::kHead);
  EXPECT_FALSE(qwen3.qkv_bias);
  EXPECT_EQ(Imported("microsoft/Phi-3-mini-4k-instruct").layer_kinds, (Runs{{.layers = 32, .window = 2047}}));
  const ModelSpec phi4 = Imported("microsoft/Phi-4-mini-instruct");
  EXPECT_EQ(RotaryDims(phi4), 96);
  EXPECT_EQ(phi4.layer_kinds, Runs()) << "wider than the longest sequence";
  const ModelSpec olmo = Imported("allenai/OLMo-2-1124-7B");
  EXPECT_EQ(olmo.qk_norm, QkNorm::kFull);
  EXPECT_EQ(olmo.norm_placement, NormPlacement::kOutput);
  const ModelSpec smol = Imported("HuggingFaceTB/SmolLM3-3B");
  EXPECT_EQ(smol.layer_kinds, Repeated({{.layers = 3}, {.layers = 1, .rotary = false}}, 36));
  EXPECT_EQ(smol.rope_theta, 2'000'000);
  const ModelSpec granite = Imported("ibm-granite/granite-3.0-8b-base");
  EXPECT_EQ(granite.embedding_scale, 12);
  EXPECT_EQ(granite.residual_scale, 0.22);
  EXPECT_EQ(granite.attention_scale, 0.0078125);
  EXPECT_EQ(granite.logit_scale, 1.0 / 16);
}

TEST(PublishedModels, Gemmas) {
  const ModelSpec first = Imported("google/gemma-2b");
  EXPECT_EQ(first.activation, Activation::kGeGlu);
  EXPECT_EQ(first.norm, Norm::kRmsNorm);
  EXPECT_DOUBLE_EQ(first.embedding_scale, std::sqrt(2048));
  EXPECT_EQ(first.norm_placement, NormPlacement::kPre);
  const ModelSpec second = Imported("google/gemma-2-2b");
  EXPECT_EQ(second.norm_placement, NormPlacement::kSandwich);
  EXPECT_EQ(second.attention_scale, 0) << "1 / sqrt(256), as usual";
  EXPECT_EQ(second.attention_softcap, 50);
  EXPECT_EQ(second.output_softcap, 30);
  EXPECT_EQ(second.layer_kinds, Repeated({{.layers = 1, .window = 4096}, {.layers = 1}}, 26));
  EXPECT_DOUBLE_EQ(Imported("google/gemma-2-27b").attention_scale, 1.0 / 12);
  const ModelSpec third = Imported("google/gemma-3-4b-pt");
  EXPECT_EQ(third.name, "gemma3");
  EXPECT_EQ(third.qk_norm, QkNorm::kHead);
  EXPECT_EQ(third.heads, 8) << "the default of the type";
  EXPECT_EQ(third.layer_kinds,
            Repeated({{.layers = 5, .window = 1024, .rope_theta = 10'000}, {.layers = 1}}, 34));
  EXPECT_EQ(third.attention_softcap, 0);
  EXPECT_EQ(third.rope_scaling, RopeScaling::kLinear);
  EXPECT_EQ(third.rope_scaling_parameters, RopeScalingParameters{.factor = 8});
  EXPECT_EQ(third.rope_theta, 1'000'000);
}

absl::StatusOr<ModelSpec> Changed(std::string_view name, const std::string& field,
                                  const nlohmann::ordered_json& value) {
  nlohmann::ordered_json json = Config(name);
  json[field] = value;
  return ImportHuggingFace(json);
}

TEST(PublishedModels, WindowsOfSomeLayers) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (int i = 0; i < 26; ++i) layers.push_back((i + 1) % 13 == 0 ? "full_attention" : "sliding_attention");
  EXPECT_EQ(Changed("google/gemma-2-2b", "layer_types", layers)->layer_kinds,
            Repeated({{.layers = 12, .window = 4096}, {.layers = 1}}, 26));
  layers[3] = "full_attention";
  EXPECT_EQ(Changed("google/gemma-2-2b", "layer_types", layers)->layer_kinds,
            (Runs{{.layers = 3, .window = 4096},
                  {.layers = 1},
                  {.layers = 8, .window = 4096},
                  {.layers = 1},
                  {.layers = 12, .window = 4096},
                  {.layers = 1}}));
  layers[3] = "chunked_attention";
  EXPECT_THAT(std::string(Changed("google/gemma-2-2b", "layer_types", layers).status().message()),
              ::testing::HasSubstr("layer_types has chunked_attention, but attention_chunk_size is missing"));
  layers[3] = "linear_attention";
  EXPECT_THAT(std::string(Changed("google/gemma-2-2b", "layer_types", layers).status().message()),
              ::testing::HasSubstr("layer_types = \"linear_attention\" is not supported yet"));
  layers.erase(3);
  EXPECT_THAT(std::string(Changed("google/gemma-2-2b", "layer_types", layers).status().message()),
              ::testing::HasSubstr("layer_types has 25 names for 26 layers"));
  EXPECT_EQ(Changed("google/gemma-2-2b", "attn_logit_softcapping", nullptr)->attention_softcap, 0);
  // Qwen's window starts at max_window_layers, and only if it is used.
  EXPECT_EQ(Changed("Qwen/Qwen2.5-7B", "use_sliding_window", true)->layer_kinds, Runs())
      << "28 of 28 layers are full";
  nlohmann::ordered_json qwen = Config("Qwen/Qwen2.5-7B");
  qwen["use_sliding_window"] = true;
  qwen["max_window_layers"] = 20;
  EXPECT_EQ(ImportHuggingFace(qwen)->layer_kinds, (Runs{{.layers = 20}, {.layers = 8, .window = 4096}}));
}

TEST(PublishedModels, ChunksOfSomeLayers) {
  nlohmann::ordered_json llama = Config("meta-llama/Llama-3.2-1B");
  llama["max_position_embeddings"] = 131072;
  llama["attention_chunk_size"] = 8192;
  llama["layer_types"] = nlohmann::ordered_json::array();
  for (int i = 0; i < 16; ++i)
    llama["layer_types"].push_back((i + 1) % 4 == 0 ? "full_attention" : "chunked_attention");
  EXPECT_EQ(ImportHuggingFace(llama)->layer_kinds,
            Repeated({{.layers = 3, .chunk = 8192}, {.layers = 1}}, 16));
}

TEST(PublishedModels, LayersWithoutRotations) {
  nlohmann::ordered_json smol = Config("HuggingFaceTB/SmolLM3-3B");
  smol["no_rope_layers"][1] = 0;
  EXPECT_EQ(ImportHuggingFace(smol)->layer_kinds[1], (LayerRun{.layers = 1, .rotary = false}));
  smol.erase("no_rope_layers");
  smol["use_sliding_window"] = true;
  smol["sliding_window"] = 512;
  EXPECT_EQ(ImportHuggingFace(smol)->layer_kinds,
            Repeated({{.layers = 3}, {.layers = 1, .window = 512, .rotary = false}}, 36));
}

// Both forms in which files say the frequencies of layers with windows.
TEST(PublishedModels, FrequenciesOfGemma3) {
  const Runs two = Repeated({{.layers = 5, .window = 512, .rope_theta = 20'000}, {.layers = 1}}, 26);
  const auto older = Changed("google/gemma-3-1b-pt", "rope_local_base_freq", 20'000);
  EXPECT_EQ(older->layer_kinds, two);
  EXPECT_EQ(older->rope_theta, 1'000'000);
  const auto parameters = nlohmann::ordered_json::parse(
      R"({"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
          "sliding_attention": {"rope_type": "default", "rope_theta": 20000}})");
  const auto newer = Changed("google/gemma-3-1b-pt", "rope_parameters", parameters);
  EXPECT_EQ(newer->layer_kinds, two);
  EXPECT_EQ(newer->rope_scaling, RopeScaling::kLinear);
  // What is not read is refused.
  auto other = parameters;
  other["sliding_attention"]["rope_type"] = "linear";
  EXPECT_THAT(
      std::string(Changed("google/gemma-3-1b-pt", "rope_parameters", other).status().message()),
      ::testing::HasSubstr("rope_parameters.sliding_attention.rope_type = \"linear\" is not supported yet"));
  other = parameters;
  other["linear_attention"] = nlohmann::ordered_json::object();
  EXPECT_THAT(std::string(Changed("google/gemma-3-1b-pt", "rope_parameters", other).status().message()),
              ::testing::HasSubstr("rope_parameters.linear_attention = {} is not supported yet"));
  EXPECT_THAT(std::string(Changed("google/gemma-3-1b-pt", "rope_local_base_freq", 0).status().message()),
              ::testing::HasSubstr("rope_local_base_freq is 0"));
}

// Sizes by which others are divided are among them.
TEST(PublishedModels, NumbersOutOfRangeAreNamed) {
  int refused = 0;
  for (const Published& published : kPublished) {
    const nlohmann::ordered_json config = Config(published.name);
    std::set<std::string> fields = {"no_rope_layer_interval", "sliding_window_pattern"};
    for (const auto& [key, value] : config.items()) {
      if (value.is_number()) fields.insert(key);
    }
    for (const std::string& field : fields) {
      for (const std::int64_t number : {0, -1}) {
        nlohmann::ordered_json changed = config;
        changed.erase("no_rope_layers");  // counts before the interval
        changed[field] = number;
        const auto model = ImportHuggingFace(changed);
        if (model.ok()) continue;
        ++refused;
        EXPECT_THAT(std::string(model.status().message()),
                    ::testing::ContainsRegex(fmt::format(" (is|=) {}[; ]", number)))
            << published.name << " " << field;
      }
    }
  }
  EXPECT_GT(refused, 200);
  for (const auto& [name, field] : {std::pair("HuggingFaceTB/SmolLM3-3B", "no_rope_layer_interval"),
                                    {"google/gemma-3-1b-pt", "sliding_window_pattern"}}) {
    nlohmann::ordered_json config = Config(name);
    config.erase("no_rope_layers");
    config[field] = 0;
    EXPECT_THAT(std::string(ImportHuggingFace(config).status().message()),
                ::testing::HasSubstr(fmt::format("{} is 0; it must be at least 1", field)));
  }
}

TEST(PublishedModels, RefusesWhatItsTypeDoesNotCompute) {
  const auto refusal = [](std::string_view name, const std::string& field,
                          const nlohmann::ordered_json& value) {
    const auto model = Changed(name, field, value);
    EXPECT_FALSE(model.ok()) << name << " " << field;
    return std::string(model.status().message());
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("facebook/opt-125m", "do_layer_norm_before", false),
              HasSubstr("do_layer_norm_before = false"));
  EXPECT_THAT(refusal("facebook/opt-125m", "word_embed_proj_dim", 512),
              HasSubstr("word_embed_proj_dim = 512 is not supported yet; use hidden_size = 768"));
  EXPECT_THAT(refusal("bigscience/bloom", "apply_residual_connection_post_layernorm", true),
              HasSubstr("apply_residual_connection_post_layernorm = true"));
  EXPECT_THAT(refusal("bigcode/starcoder2-3b", "norm_type", "rms_norm"),
              HasSubstr("norm_type = \"rms_norm\""));
  EXPECT_THAT(refusal("microsoft/phi-4", "lm_head_bias", true), HasSubstr("lm_head_bias = true"));
  EXPECT_THAT(refusal("google/gemma-2b", "use_bidirectional_attention", true),
              HasSubstr("use_bidirectional_attention = true"));
  EXPECT_THAT(refusal("google/gemma-2-2b", "query_pre_attn_scalar", 0),
              HasSubstr("query_pre_attn_scalar is 0"));
  EXPECT_THAT(refusal("ibm-granite/granite-3.0-8b-base", "logits_scaling", 0),
              HasSubstr("logits_scaling is 0"));
  EXPECT_THAT(refusal("HuggingFaceTB/SmolLM3-3B", "no_rope_layers", nlohmann::ordered_json::array({1, 0})),
              HasSubstr("no_rope_layers must be a list"));
  EXPECT_THAT(refusal("EleutherAI/pythia-70m", "rotary_pct", 0.3),
              HasSubstr("partial_rotary_factor is 0.3, which rotates 19.2 of the 64 dims"));
  EXPECT_THAT(refusal("google/gemma-3-4b-pt", "text_config", nullptr), HasSubstr("text_config is missing"));
  EXPECT_THAT(refusal("google/gemma-3-4b-pt", "text_config", nlohmann::ordered_json{{"model_type", "llama"}}),
              HasSubstr("text_config.model_type = \"llama\" is not supported yet; use gemma3_text"));
  EXPECT_THAT(
      refusal("google/gemma-3-4b-pt", "architectures", nlohmann::ordered_json::array({"Gemma3ForCausalLM"})),
      HasSubstr("use Gemma3ForConditionalGeneration"));
}

TEST(PublishedModels, NotesSayWhatIsNotTaken) {
  for (const Published& published : kPublished) {
    std::vector<std::string> notes;
    const auto json = nlohmann::ordered_json::parse(published.config);
    const auto model = ImportHuggingFace(json, &notes);
    ASSERT_TRUE(model.ok()) << published.name << ": " << model.status();
    std::vector<::testing::Matcher<std::string>> expected;
    if (json.contains("text_config"))
      expected.emplace_back(::testing::HasSubstr("the text part alone is taken"));
    if (!model->undescribed.empty()) {
      expected.emplace_back(
          ::testing::HasSubstr("since it does not affect the prediction: " + model->undescribed));
      EXPECT_FALSE(CheckEngineSupports(*model).ok()) << published.name;
    }
    EXPECT_THAT(notes, ::testing::ElementsAreArray(expected)) << published.name;
  }
}

TEST(PublishedModels, RelativesOfGpt) {
  const ModelSpec gptj = Imported("EleutherAI/gpt-j-6b");
  EXPECT_TRUE(gptj.parallel_residual && gptj.shared_norm && gptj.mlp_bias);
  EXPECT_FALSE(gptj.qkv_bias || gptj.attention_out_bias || gptj.tied_embeddings);
  EXPECT_EQ(RotaryDims(gptj), 64);
  EXPECT_EQ(gptj.undescribed, "biases of the output layer");
  EXPECT_EQ(RotaryDims(Imported("Salesforce/codegen-350M-mono")), 32);
  const ModelSpec neo = Imported("EleutherAI/gpt-neo-1.3B");
  EXPECT_EQ(neo.layer_kinds, Repeated({{.layers = 1}, {.layers = 1, .window = 256}}, 24));
  EXPECT_EQ(neo.attention_scale, 1);
  EXPECT_TRUE(neo.attention_out_bias && !neo.qkv_bias);
  EXPECT_EQ(Imported("bigcode/starcoder").kv_heads, 1);
  EXPECT_EQ(Imported("openai-community/openai-gpt").norm_placement, NormPlacement::kOutput);
  EXPECT_EQ(Imported("core42/jais-13b").activation, Activation::kSwiGlu);
  EXPECT_EQ(Imported("core42/jais-13b").position, Position::kAlibi);
  const ModelSpec mpt = Imported("mosaicml/mpt-7b");
  EXPECT_EQ(mpt.position, Position::kAlibi);
  EXPECT_EQ(mpt.ffn_hidden, 16'384);
  EXPECT_EQ(Imported("facebook/xglm-564M").position, Position::kNone);
  EXPECT_EQ(Imported("facebook/xglm-564M").embedding_scale, 32);
  EXPECT_EQ(Imported("microsoft/biogpt").position, Position::kLearned);
  EXPECT_TRUE(Imported("tiiuae/falcon-7b, older file").shared_norm);
  EXPECT_FALSE(Imported("tiiuae/falcon-40b, older file").shared_norm);
}

TEST(PublishedModels, LayerNormWithRotaryPositions) {
  for (const std::string_view name :
       {"microsoft/phi-2", "adept/persimmon-8b-base", "stabilityai/stablelm-2-1_6b",
        "nvidia/Minitron-8B-Base", "CohereForAI/c4ai-command-r-v01", "allenai/OLMo-7B-hf",
        "OrionStarAI/Orion-14B-Base"}) {
    const ModelSpec model = Imported(name);
    EXPECT_EQ(model.norm, Norm::kLayerNorm) << name;
    EXPECT_EQ(model.position, Position::kRope) << name;
  }
  const ModelSpec phi = Imported("microsoft/phi-2");
  EXPECT_TRUE(phi.parallel_residual && phi.shared_norm && phi.qkv_bias && phi.mlp_bias);
  EXPECT_EQ(RotaryDims(phi), 32);
  EXPECT_EQ(phi.activation, Activation::kGelu);
  const ModelSpec persimmon = Imported("adept/persimmon-8b-base");
  EXPECT_EQ(persimmon.activation, Activation::kSquaredRelu);
  EXPECT_EQ(persimmon.qk_norm, QkNorm::kHead);
  const ModelSpec stablelm = Imported("stabilityai/stablelm-2-1_6b");
  EXPECT_EQ(RotaryDims(stablelm), 16);
  EXPECT_TRUE(stablelm.qkv_bias && !stablelm.attention_out_bias && !stablelm.parallel_residual);
  EXPECT_TRUE(CheckEngineSupports(stablelm).ok());
  const ModelSpec large = Imported("stabilityai/stablelm-2-12b");
  EXPECT_TRUE(large.parallel_residual && large.shared_norm && !large.qkv_bias);
  EXPECT_EQ(large.qk_norm, QkNorm::kHead);
  const ModelSpec nemotron = Imported("nvidia/Minitron-8B-Base");
  EXPECT_EQ(nemotron.activation, Activation::kSquaredRelu);
  EXPECT_TRUE(CheckEngineSupports(nemotron).ok());
  const ModelSpec command = Imported("CohereForAI/c4ai-command-r-v01");
  EXPECT_TRUE(command.parallel_residual && command.shared_norm && command.tied_embeddings);
  EXPECT_EQ(command.logit_scale, 0.0625);
  EXPECT_EQ(Imported("CohereForAI/c4ai-command-r-plus").qk_norm, QkNorm::kHead);
  EXPECT_EQ(Imported("CohereForAI/c4ai-command-r7b-12-2024").layer_kinds,
            Repeated({{.layers = 3, .window = 4096}, {.layers = 1, .rotary = false}}, 32));
}

TEST(PublishedModels, LaterRelativesOfLlama) {
  const ModelSpec olmo = Imported("allenai/Olmo-3-1025-7B");
  EXPECT_EQ(olmo.norm_placement, NormPlacement::kOutput);
  EXPECT_EQ(olmo.layer_kinds,
            Repeated({{.layers = 3, .window = 4096, .rope_theta = 500'000}, {.layers = 1}}, 32))
      << "scaled frequencies are those of the layers that attend to all";
  EXPECT_EQ(Imported("allenai/Olmo-3-1125-32B").layer_kinds,
            Repeated({{.layers = 3, .window = 4096}, {.layers = 1}}, 64));
  EXPECT_EQ(RotaryDims(Imported("THUDM/glm-4-9b-hf")), 64);
  EXPECT_EQ(Imported("THUDM/GLM-4-9B-0414").norm_placement, NormPlacement::kSandwich);
  EXPECT_FALSE(Imported("THUDM/GLM-4-32B-0414").qkv_bias);
  const ModelSpec chatglm = Imported("THUDM/chatglm3-6b");
  EXPECT_EQ(chatglm.kv_heads, 2);
  EXPECT_EQ(RotaryDims(chatglm), 64);
  EXPECT_TRUE(chatglm.qkv_bias && !chatglm.mlp_bias);
  EXPECT_TRUE(CheckEngineSupports(Imported("baidu/ERNIE-4.5-0.3B-PT")).ok());
  EXPECT_EQ(Imported("tencent/Hunyuan-7B-Pretrain").qk_norm, QkNorm::kHead);
  const ModelSpec seed = Imported("ByteDance-Seed/Seed-OSS-36B-Base");
  EXPECT_TRUE(seed.qkv_bias && !seed.attention_out_bias);
  const ModelSpec exaone = Imported("LGAI-EXAONE/EXAONE-4.0-32B");
  EXPECT_EQ(exaone.norm_placement, NormPlacement::kOutput);
  EXPECT_EQ(exaone.layer_kinds,
            Repeated({{.layers = 3, .window = 4096}, {.layers = 1, .rotary = false}}, 64));
  EXPECT_EQ(Imported("swiss-ai/Apertus-8B-2509").activation, Activation::kSquaredRelu);
  EXPECT_THAT(Imported("swiss-ai/Apertus-8B-2509").undescribed, ::testing::HasSubstr("xielu"));
  EXPECT_EQ(Imported("arcee-ai/AFM-4.5B-Base").activation, Activation::kSquaredRelu);
  EXPECT_EQ(Imported("facebook/cwm").layer_kinds.front(), LayerRun{.layers = 1});
  EXPECT_EQ(Imported("baichuan-inc/Baichuan2-7B-Base").position, Position::kRope);
  EXPECT_EQ(Imported("baichuan-inc/Baichuan2-13B-Base").position, Position::kAlibi);
  const ModelSpec minicpm = Imported("openbmb/MiniCPM-2B-sft-bf16");
  EXPECT_DOUBLE_EQ(minicpm.residual_scale, 1.4 / std::sqrt(40));
  EXPECT_DOUBLE_EQ(minicpm.logit_scale, 256.0 / 2304);
  EXPECT_EQ(minicpm.embedding_scale, 12);
  EXPECT_EQ(Imported("ibm-granite/granite-4.0-micro-base").layer_kinds, Runs());
  EXPECT_THAT(std::string(Changed("ibm-granite/granite-4.0-micro-base", "layer_types",
                                  nlohmann::ordered_json::array({"mamba", "attention"}))
                              .status()
                              .message()),
              ::testing::HasSubstr("has state-space or recurrent layers"));
  EXPECT_EQ(Imported("google/vaultgemma-1b").norm_placement, NormPlacement::kPre);
  EXPECT_EQ(Imported("mistralai/Ministral-3-8B-Base-2512").rope_scaling, RopeScaling::kYarn);
}

// Patterns of windows as the files write them.
TEST(PublishedModels, PatternsOfExaone) {
  const std::string_view name = "LGAI-EXAONE/EXAONE-4.0-32B";
  const Runs usual = Imported(name).layer_kinds;
  EXPECT_EQ(Changed(name, "sliding_window_pattern", 4)->layer_kinds, usual);
  EXPECT_EQ(Changed(name, "sliding_window", nullptr)->layer_kinds, Runs()) << "no windows, all rotate";
  EXPECT_EQ(Changed(name, "sliding_window_pattern", "LLLLG")->layer_kinds.back(),
            (LayerRun{.layers = 1, .rotary = false}))
      << "the last layer attends to all";
  EXPECT_THAT(std::string(Changed(name, "sliding_window_pattern", "LX").status().message()),
              ::testing::HasSubstr("sliding_window_pattern must have a letter L or G"));
}

}  // namespace
}  // namespace autocfg
