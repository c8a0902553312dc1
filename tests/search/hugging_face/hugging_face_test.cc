// Compares imported config.json files of released models, verbatim in the relevant fields, with our presets,
// and checks what must be rejected.
#include "search/hugging_face/hugging_face.h"

#include <random>
#include <string>

#include "base/json_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr std::string_view kGpt2 =
    R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024,
    "n_embd": 768, "n_head": 12, "n_inner": null, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_type": "cls_index",
    "task_specific_params": {"text-generation": {"do_sample": true}}, "vocab_size": 50257})";

constexpr std::string_view kLlama3 =
    R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 128000, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
    "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 500000.0, "tie_word_embeddings": false,
    "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 128256})";

ModelSpec Preset(std::string_view name, std::string_view as) {
  ModelSpec model = *ModelPreset(name);
  model.name = as;
  return model;
}

TEST(HuggingFace, ReleasedModels) {
  const auto gpt2 = ImportHuggingFace(Json::parse(kGpt2));
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  EXPECT_EQ(*gpt2, Preset("gpt2-124m", "gpt2"));
  const auto llama = ImportHuggingFace(Json::parse(kLlama3));
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_EQ(*llama, Preset("llama3-8b", "llama"));
  EXPECT_TRUE(IsHuggingFaceConfig(Json::parse(kGpt2)));
  EXPECT_FALSE(IsHuggingFaceConfig(Json::parse(R"({"layers": 2})")));
  EXPECT_FALSE(IsHuggingFaceConfig(Json::parse("[]")));
}

absl::StatusOr<ModelSpec> With(std::string_view base, const std::string& field, const Json& value) {
  Json json = Json::parse(base);
  json[field] = value;
  return ImportHuggingFace(json);
}

TEST(HuggingFace, MapsEveryField) {
  EXPECT_EQ(With(kGpt2, "n_inner", 3000)->ffn_hidden, 3000);
  EXPECT_EQ(With(kGpt2, "n_positions", 77)->max_seq_len, 77);
  EXPECT_EQ(With(kGpt2, "activation_function", "gelu")->activation, Activation::kGeluErf);
  EXPECT_EQ(With(kGpt2, "activation_function", "relu")->activation, Activation::kRelu);
  EXPECT_EQ(With(kGpt2, "layer_norm_epsilon", 1e-6)->norm_eps, 1e-6);
  EXPECT_FALSE(With(kGpt2, "tie_word_embeddings", false)->tied_embeddings);
  EXPECT_EQ(With(kGpt2, "_name_or_path", "openai/gpt2")->name, "openai/gpt2");
  EXPECT_EQ(With(kLlama3, "num_key_value_heads", nullptr)->kv_heads, 32)
      << "as many as heads where there is none";
  EXPECT_EQ(With(kLlama3, "head_dim", 64)->head_dim, 64);
  EXPECT_TRUE(With(kLlama3, "tie_word_embeddings", true)->tied_embeddings);
  EXPECT_EQ(With(kLlama3, "rms_norm_eps", nullptr)->norm_eps, 1e-6) << "the default of the class";
  EXPECT_EQ(With(kLlama3, "hidden_act", "gelu_pytorch_tanh")->activation, Activation::kGeGlu);
  EXPECT_EQ(With(kLlama3, "rope_scaling", Json{{"rope_type", "default"}})->rope_theta, 500'000);
  Json newer = Json::parse(kLlama3);
  newer.erase("rope_theta");
  newer["rope_parameters"] = {{"rope_theta", 10'000.0}, {"rope_type", "default"}};
  EXPECT_EQ(ImportHuggingFace(newer)->rope_theta, 10'000);
  Json biased = Json::parse(kLlama3);
  biased["attention_bias"] = biased["mlp_bias"] = true;
  EXPECT_TRUE(ImportHuggingFace(biased)->qkv_bias);
  EXPECT_TRUE(ImportHuggingFace(biased)->attention_out_bias);
  EXPECT_TRUE(ImportHuggingFace(biased)->mlp_bias);
  biased["mlp_bias"] = false;
  EXPECT_TRUE(ImportHuggingFace(biased)->qkv_bias);
  EXPECT_FALSE(ImportHuggingFace(biased)->mlp_bias);
}

// The field of Llama 3.1, verbatim.
TEST(HuggingFace, RopeScalingOfLlama31) {
  const Json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192},
                        {"rope_type", "llama3"}};
  const auto model = With(kLlama3, "rope_scaling", scaling);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->rope_scaling, RopeScaling::kLlama3);
  EXPECT_EQ(model->rope_scaling_parameters, Llama3Scaling(8));
  EXPECT_EQ(model->rope_theta, 500'000);
  EXPECT_TRUE(CheckEngineSupports(*model).ok());
  EXPECT_EQ(With(kLlama3, "rope_scaling", nullptr)->rope_scaling, RopeScaling::kNone);
  Json newer = Json::parse(kLlama3);
  newer["rope_parameters"] = scaling;
  newer["rope_parameters"]["rope_theta"] = 10'000.0;
  EXPECT_EQ(ImportHuggingFace(newer)->rope_scaling_parameters, Llama3Scaling(8));
  EXPECT_EQ(ImportHuggingFace(newer)->rope_theta, 10'000);
  Json partial = scaling;
  partial.erase("low_freq_factor");
  EXPECT_THAT(std::string(With(kLlama3, "rope_scaling", partial).status().message()),
              HasSubstr("rope_scaling: low_freq_factor is missing; llama3 needs it"));
  partial["low_freq_factor"] = "1";
  EXPECT_THAT(std::string(With(kLlama3, "rope_scaling", partial).status().message()),
              AllOf(HasSubstr("config.json: rope_scaling"), HasSubstr("low_freq_factor")));
}

TEST(HuggingFace, OtherRopeScalings) {
  const auto of = [](const Json& scaling) { return With(kLlama3, "rope_scaling", scaling); };
  // Other fields are ignored, as in transformers.
  const auto linear = of({{"type", "linear"}, {"factor", 2.0}, {"finetuned", true}, {"beta_fast", 3}});
  EXPECT_EQ(linear->rope_scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear->rope_scaling_parameters, RopeScalingParameters{.factor = 2});
  const auto dynamic = of({{"type", "dynamic"}, {"factor", 4}, {"original_max_position_embeddings", 2048}});
  EXPECT_EQ(dynamic->rope_scaling, RopeScaling::kDynamic);
  EXPECT_EQ(dynamic->rope_scaling_parameters, RopeScalingParameters{.factor = 4});
  const RopeScalingParameters expected{.factor = 32,
                                       .original_max_position_embeddings = 4096,
                                       .attention_factor = 1.1,
                                       .mscale = 1,
                                       .mscale_all_dim = 0.707,
                                       .truncate = false};
  const auto yarn = of({{"rope_type", "yarn"},
                        {"factor", 32.0},
                        {"original_max_position_embeddings", 4096},
                        {"beta_fast", 32.0},
                        {"beta_slow", nullptr},
                        {"attention_factor", 1.1},
                        {"mscale", 1.0},
                        {"mscale_all_dim", 0.707},
                        {"truncate", false}});
  ASSERT_TRUE(yarn.ok()) << yarn.status();
  EXPECT_EQ(yarn->rope_scaling, RopeScaling::kYarn);
  EXPECT_EQ(yarn->rope_scaling_parameters, expected);
  // transformers derives a factor that is missing.
  EXPECT_EQ(
      of({{"type", "yarn"}, {"original_max_position_embeddings", 2048}})->rope_scaling_parameters.factor, 4);
}

// Phi-3 names its scaling in three ways, and has the original length beside it.
TEST(HuggingFace, LongRopeOfPhi3) {
  const std::vector<double> shorter(48, 1.0), longer(48, 2.5);
  Json phi = {{"model_type", "phi3"},      {"num_hidden_layers", 2},
              {"hidden_size", 3072},       {"num_attention_heads", 32},
              {"intermediate_size", 8192}, {"vocab_size", 32064},
              {"sliding_window", nullptr}, {"max_position_embeddings", 131072},
              {"rope_theta", 10000.0},     {"original_max_position_embeddings", 4096}};
  for (const char* type : {"su", "yarn", "longrope"}) {
    phi["rope_scaling"] = {{"type", type}, {"short_factor", shorter}, {"long_factor", longer}};
    const auto model = ImportHuggingFace(phi);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->rope_scaling, RopeScaling::kLongRope) << type;
    EXPECT_EQ(model->rope_scaling_parameters,
              (RopeScalingParameters{
                  .original_max_position_embeddings = 4096, .short_factor = shorter, .long_factor = longer}));
    EXPECT_TRUE(CheckEngineSupports(*model).ok());
  }
  phi["rope_scaling"]["long_factor"] = {1.0, 2.0};
  EXPECT_THAT(std::string(ImportHuggingFace(phi).status().message()),
              HasSubstr("long_factor has 2 numbers; give 48"));
}

TEST(HuggingFace, NotSupportedYet) {
  const auto refusal = [](std::string_view base, const std::string& field, const Json& value) {
    const auto model = With(base, field, value);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented) << field << ": " << model.status();
    return std::string(model.status().message());
  };
  EXPECT_THAT(refusal(kGpt2, "model_type", "qwen4"),
              AllOf(HasSubstr("model_type = \"qwen4\" is not supported yet"),
                    HasSubstr("use one that autocfg models lists"), HasSubstr("did you mean qwen")));
  EXPECT_THAT(refusal(kGpt2, "activation_function", "silu"),
              HasSubstr("activation_function = \"silu\" is not supported yet"));
  EXPECT_THAT(refusal(kGpt2, "scale_attn_by_inverse_layer_idx", true),
              HasSubstr("scale_attn_by_inverse_layer_idx = true"));
  EXPECT_THAT(refusal(kGpt2, "add_cross_attention", true), HasSubstr("add_cross_attention"));
  EXPECT_THAT(refusal(kGpt2, "quantization_config", Json::object()), HasSubstr("quantization_config"));
  EXPECT_THAT(refusal(kLlama3, "hidden_act", "relu"), HasSubstr("hidden_act = \"relu\""));
  EXPECT_THAT(refusal(kLlama3, "rope_scaling", Json{{"rope_type", "su4"}, {"factor", 8.0}}),
              HasSubstr("rope_scaling.rope_type = \"su4\" is not supported yet"));
  EXPECT_THAT(refusal(kLlama3, "rope_scaling", Json{{"factor", 2.0}}), HasSubstr("rope_scaling.factor"));
  EXPECT_THAT(refusal(kLlama3, "architectures", Json::array({"LlamaForSequenceClassification"})),
              AllOf(HasSubstr("architectures = \"LlamaForSequenceClassification\" is not supported yet"),
                    HasSubstr("LlamaForCausalLM")));
  EXPECT_THAT(refusal(kGpt2, "architectures", Json::array({"GPT2Model"})), HasSubstr("use GPT2LMHeadModel"));
}

// Says in one line that experts are not supported, whatever else the file holds.
TEST(HuggingFace, MixturesOfExperts) {
  const auto refusal = [](const Json& json) {
    const auto model = ImportHuggingFace(json);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented) << json << ": " << model.status();
    EXPECT_THAT(
        std::string(model.status().message()),
        HasSubstr("says that this is a mixture of experts, which is not supported yet; use a dense model"));
    return std::string(model.status().message());
  };
  for (const char* type : {"mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "olmoe",
                           "granitemoe", "dbrx", "gpt_oss", "some_new_moe"}) {
    EXPECT_THAT(refusal(Json{{"model_type", type}}), HasSubstr(type));
  }
  const auto with = [&](const std::string& field, const Json& value) {
    Json json = Json::parse(kLlama3);
    json[field] = value;
    return refusal(json);
  };
  EXPECT_THAT(with("num_local_experts", 8), HasSubstr("num_local_experts = 8 says"));
  EXPECT_THAT(with("num_experts", 64), HasSubstr("num_experts = 64"));
  EXPECT_THAT(with("moe_num_experts", 2.0), HasSubstr("moe_num_experts = 2.0"));
  EXPECT_THAT(with("n_routed_experts", "many"), HasSubstr("n_routed_experts = \"many\""));
  EXPECT_THAT(with("ffn_config", Json{{"moe_num_experts", 16}}),
              HasSubstr("ffn_config.moe_num_experts = 16"));
  EXPECT_THAT(with("text_config", Json{{"model_type", "llama4_text"}, {"num_local_experts", 16}}),
              HasSubstr("text_config.num_local_experts = 16"));
  EXPECT_THAT(refusal(Json{{"num_experts", 8}, {"model_type", 3}, {"quantization_config", Json::object()}}),
              HasSubstr("num_experts = 8"));
}

// Says in one line what a file is that is not of a dense decoder.
TEST(HuggingFace, OtherKindsOfModels) {
  const auto refusal = [](const Json& json) {
    EXPECT_TRUE(IsHuggingFaceConfig(json));
    const auto model = ImportHuggingFace(json);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented) << json << ": " << model.status();
    return std::string(model.status().message());
  };
  EXPECT_THAT(refusal(Json{{"peft_type", "LORA"}, {"base_model_name_or_path", "meta-llama/Llama-3.1-8B"}}),
              AllOf(HasSubstr("peft_type = \"LORA\" says that this is an adapter (LoRA)"),
                    HasSubstr("use config.json of its base model meta-llama/Llama-3.1-8B")));
  for (const auto& [type, feature] : {std::pair("mamba2", "has state-space or recurrent layers"),
                                      {"jamba", "has state-space"},
                                      {"nemotron_h", "has state-space"},
                                      {"bert", "is an encoder"},
                                      {"t5", "is an encoder with a decoder"},
                                      {"minicpm3", "has latent attention (MLA)"},
                                      {"gemma3n", "has embeddings in each layer"},
                                      {"nemotron-nas", "has layers of different shapes"}}) {
    EXPECT_THAT(refusal(Json{{"model_type", type}}), AllOf(HasSubstr(type), HasSubstr(feature)));
  }
  EXPECT_THAT(refusal(Json{{"model_type", "new"}, {"mamba_d_state", 128}}),
              HasSubstr("mamba_d_state = 128 says that this has state-space or recurrent layers"));
  EXPECT_THAT(refusal(Json{{"model_type", "new"}, {"is_encoder_decoder", true}}),
              HasSubstr("is an encoder with a decoder"));
  EXPECT_THAT(refusal(Json{{"model_type", "new"}, {"text_config", Json{{"kv_lora_rank", 512}}}}),
              HasSubstr("text_config.kv_lora_rank = 512 says that this has latent attention"));
}

TEST(HuggingFace, QuantizedFilesSaySo) {
  const auto refusal = [](const std::string& field, const Json& value) {
    return std::string(With(kLlama3, field, value).status().message());
  };
  EXPECT_THAT(refusal("quantization_config", Json{{"quant_method", "gptq"}, {"bits", 4}}),
              HasSubstr("quantization_config says that the weights are quantized, gptq, 4 bits, which is not "
                        "supported yet; remove it"));
  EXPECT_THAT(refusal("compression_config", Json::object()),
              HasSubstr("compression_config says that the weights are quantized, which"));
}

// A window narrower than the longest sequence is kept; it changes predictions.
TEST(HuggingFace, SlidingWindows) {
  const auto window = With(kLlama3, "sliding_window", 4096);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_EQ(window->layer_kinds, (std::vector<LayerRun>{{.layers = window->layers, .window = 4096}}));
  EXPECT_THAT(std::string(With(kLlama3, "sliding_window", "x").status().message()),
              HasSubstr("sliding_window is \"x\"; it must be a whole number"));
  for (const auto& [field, value] : {std::pair<const char*, Json>{"num_local_experts", 1},
                                     {"num_local_experts", nullptr},
                                     {"sliding_window", nullptr},
                                     {"sliding_window", 8192}}) {
    const auto model = With(kLlama3, field, value);
    ASSERT_TRUE(model.ok()) << field << ": " << model.status();
    EXPECT_EQ(*model, Preset("llama3-8b", "llama")) << field;
  }
  Json unused = Json::parse(kLlama3);
  unused["sliding_window"] = 4096;
  unused["use_sliding_window"] = false;
  EXPECT_TRUE(ImportHuggingFace(unused).ok());
}

TEST(HuggingFace, ExplicitDefaultsAreAccepted) {
  for (const auto& [field, value] : {std::pair<const char*, Json>{"partial_rotary_factor", 1},
                                     {"partial_rotary_factor", 1.0},
                                     {"rope_parameters", Json{{"partial_rotary_factor", 1.0}}},
                                     {"architectures", nullptr}}) {
    const auto model = With(kLlama3, field, value);
    EXPECT_TRUE(model.ok()) << field << ": " << model.status();
  }
}

TEST(HuggingFace, DetectsFilesWithoutAType) {
  for (const std::string_view base : {kGpt2, kLlama3}) {
    Json json = Json::parse(base);
    json.erase("model_type");
    EXPECT_TRUE(IsHuggingFaceConfig(json));
    EXPECT_THAT(std::string(ImportHuggingFace(json).status().message()),
                HasSubstr("model_type is missing; give one that autocfg models lists"));
  }
  EXPECT_FALSE(IsHuggingFaceConfig(Json{{"layers", 2}, {"hidden", 64}}));
}

TEST(HuggingFace, RejectsWrongAndContradictoryFields) {
  const auto refusal = [](std::string_view base, const std::string& field, const Json& value) {
    const auto model = With(base, field, value);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << field << ": " << model.status();
    return std::string(model.status().message());
  };
  EXPECT_THAT(refusal(kGpt2, "n_layer", 0), HasSubstr("n_layer is 0; it must be at least 1"));
  EXPECT_THAT(refusal(kGpt2, "n_layer", "12"), HasSubstr("n_layer is \"12\"; it must be a whole number"));
  EXPECT_THAT(refusal(kGpt2, "n_embd", nullptr), HasSubstr("n_embd is missing"));
  EXPECT_THAT(refusal(kGpt2, "n_head", 7), HasSubstr("heads = 7 does not divide hidden = 768"));
  EXPECT_THAT(refusal(kLlama3, "num_key_value_heads", 5),
              HasSubstr("kv_heads = 5 does not divide heads = 32"));
  EXPECT_THAT(refusal(kLlama3, "head_dim", 63), HasSubstr("rotary positions need an even one"));
  EXPECT_THAT(refusal(kLlama3, "rope_theta", 0), HasSubstr("rope_theta is 0"));
  EXPECT_THAT(refusal(kLlama3, "rope_scaling", 3), HasSubstr("rope_scaling must be an object"));
  EXPECT_THAT(refusal(kLlama3, "rms_norm_eps", "x"), HasSubstr("rms_norm_eps is \"x\"; it must be a number"));
  EXPECT_THAT(refusal(kLlama3, "model_type", 3), HasSubstr("model_type is 3; it must be a string"));
}

// Any bytes give a model or one printable line.
TEST(HuggingFace, AnyBytes) {
  std::mt19937_64 random(17);
  int imported = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text(i % 2 == 0 ? kGpt2 : kLlama3);
    for (std::size_t n = 1 + random() % 2; n > 0; --n) {
      const std::size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text[at] = "0123456789-e\"{}[],:nx"[random() % 21];
      } else {
        text.erase(at, 1 + random() % 4);
      }
    }
    const auto json = base::ParseJson("model", text);
    const absl::Status status = json.ok() ? ImportHuggingFace(*json).status() : json.status();
    imported += status.ok() ? 1 : 0;
    for (const char c : status.message())
      ASSERT_TRUE(c >= ' ' && c <= '~') << "not one printable line: " << status;
  }
  EXPECT_GT(imported, 100);
}

}  // namespace
}  // namespace autocfg
