// Tests the presets: parameter counts against published ones, device figures against data sheets, and a
// source for each figure.
#include "search/text/presets.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "search/plan/model_spec.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::IsSupersetOf;

TEST(EmbeddedPresets, Sorted) {
  const auto presets = EmbeddedPresets();
  ASSERT_FALSE(presets.empty());
  for (std::size_t i = 1; i < presets.size(); ++i) {
    EXPECT_LT(std::make_pair(presets[i - 1].kind, presets[i - 1].name),
              std::make_pair(presets[i].kind, presets[i].name));
  }
}

TEST(ModelPresets, IncludeAllOfTheContract) {
  EXPECT_THAT(
      ModelPresetNames(),
      IsSupersetOf({"gpt2-124m",     "gpt2-1.5b",      "megatron-1.7b", "megatron-3.6b", "megatron-7.5b",
                    "megatron-18b",  "megatron-39b",   "megatron-76b",  "megatron-145b", "megatron-310b",
                    "megatron-530b", "megatron-1000b", "gpt3-175b",     "mt-nlg-530b",   "llama2-7b",
                    "llama2-70b",    "llama3-8b",      "llama3-70b",    "llama3-405b",   "qwen3-8b",
                    "mistral-7b",    "gemma3-27b",     "olmo2-7b",      "olmo3-32b"}));
}

TEST(ModelPresets, ParametersOfReleasedWeights) {
  EXPECT_EQ(ParameterCount(*ModelPreset("gpt2-124m")), 124'439'808);
  EXPECT_EQ(ParameterCount(*ModelPreset("gpt2-1.5b")), 1'557'611'200);
  EXPECT_EQ(ParameterCount(*ModelPreset("llama2-7b")), 6'738'415'616);
  EXPECT_EQ(ParameterCount(*ModelPreset("llama2-70b")), 68'976'648'192);
  EXPECT_EQ(ParameterCount(*ModelPreset("llama3-8b")), 8'030'261'248);
  EXPECT_EQ(ParameterCount(*ModelPreset("llama3-70b")), 70'553'706'496);
  EXPECT_EQ(ParameterCount(*ModelPreset("llama3-405b")), 405'853'388'800);
}

// The count stands in the file, with the repository whose safetensors metadata says it.
TEST(ModelPresets, ParametersAsTheirFilesSay) {
  constexpr std::string_view kBefore = ", which have ";
  int counts = 0;
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    const std::size_t at = preset.json.find(kBefore);
    if (preset.kind != "models" || at == std::string_view::npos) continue;
    std::string digits;
    for (std::size_t i = at + kBefore.size(); preset.json[i] != ' '; ++i) {
      if (preset.json[i] != ',') digits += preset.json[i];
    }
    EXPECT_EQ(ParameterCount(*ModelPreset(preset.name)), std::stoll(digits)) << preset.name;
    ++counts;
  }
  EXPECT_GT(counts, 17);
}

TEST(ModelPresets, UnknownNamesPointToConfigJson) {
  EXPECT_THAT(std::string(ModelPreset("qwen3-9b").status().message()),
              testing::AllOf(testing::HasSubstr("did you mean qwen3-"),
                             testing::HasSubstr("a Hugging Face config.json also works")));
  EXPECT_THAT(std::string(ModelPreset("novel").status().message()),
              testing::HasSubstr("give one that autocfg models lists, or a Hugging Face config.json"));
}

// In billions, as printed: Narayanan et al. 2021, table 1; Brown et al. 2020, table 2.1 (175.0, but 174.6 by
// its own shape); Smith et al. 2022.
TEST(ModelPresets, ParametersAsPublished) {
  struct Published {
    const char* name;
    double billions;
    double rounding;  // half of the last printed digit
  };
  for (const Published& published : {Published{"megatron-1.7b", 1.7, 0.05},
                                     {"megatron-3.6b", 3.6, 0.05},
                                     {"megatron-7.5b", 7.5, 0.05},
                                     {"megatron-18b", 18.4, 0.05},
                                     {"megatron-39b", 39.1, 0.05},
                                     {"megatron-76b", 76.1, 0.05},
                                     {"megatron-145b", 145.6, 0.05},
                                     {"megatron-310b", 310.1, 0.05},
                                     {"megatron-530b", 529.6, 0.05},
                                     {"megatron-1000b", 1008.0, 0.05},
                                     {"gpt3-175b", 175, 0.5},
                                     {"mt-nlg-530b", 530, 0.5}}) {
    const auto model = ModelPreset(published.name);
    ASSERT_TRUE(model.ok()) << model.status();
    const double billions = static_cast<double>(ParameterCount(*model)) / 1e9;
    EXPECT_LE(std::abs(billions - published.billions), published.rounding)
        << published.name << " has " << billions;
  }
}

TEST(ModelPresets, NumericsOfLlama) {
  for (const char* name : {"llama2-7b", "llama2-70b", "llama3-8b", "llama3-70b", "llama3-405b"}) {
    const ModelSpec model = *ModelPreset(name);
    EXPECT_EQ(model.activation, Activation::kSwiGlu);
    EXPECT_EQ(model.norm, Norm::kRmsNorm);
    EXPECT_EQ(model.norm_eps, 1e-5);
    EXPECT_EQ(model.position, Position::kRope);
    EXPECT_EQ(model.rope_theta, std::string(name).starts_with("llama3") ? 500'000 : 10'000);
    EXPECT_FALSE(model.qkv_bias || model.attention_out_bias || model.mlp_bias);
    EXPECT_FALSE(model.tied_embeddings);
    EXPECT_EQ(model.head_dim, 128);
  }
}

// Rates per GPU from the data sheets: dense tensor-core peak, memory, NVLink per direction, network
// interface.
TEST(DevicePresets, DataSheets) {
  struct Sheet {
    const char* name;
    double gigabytes, bf16, fp16, fp32, memory, nvlink, network;
    std::int64_t multiprocessors;
    std::int64_t gpus_per_node = 8;
  };
  const std::vector<Sheet> sheets = {
      {"v100-32gb-sxm", 32, 0, 125e12, 15.7e12, 0.9e12, 150e9, 12.5e9, 80},
      {"a100-40gb-sxm", 40, 312e12, 312e12, 19.5e12, 1.555e12, 300e9, 25e9, 108},
      {"a100-80gb-sxm", 80, 312e12, 312e12, 19.5e12, 2.039e12, 300e9, 25e9, 108},
      {"h100-sxm", 80, 989.4e12, 989.4e12, 66.9e12, 3.35e12, 450e9, 50e9, 132},
      {"h200-sxm", 141, 989.4e12, 989.4e12, 66.9e12, 4.8e12, 450e9, 50e9, 132},
      {"b200-sxm", 180, 2.25e15, 2.25e15, 75e12, 8e12, 900e9, 50e9, 148},
      {"a100-80gb-pcie", 80, 312e12, 312e12, 19.5e12, 1.935e12, 32e9, 12.5e9, 108},
      {"h100-pcie", 80, 756e12, 756e12, 51.2e12, 2e12, 64e9, 25e9, 114},
      {"h20", 96, 148e12, 148e12, 44e12, 4e12, 450e9, 50e9, 78},
      {"l40s", 45, 362.05e12, 362.05e12, 91.6e12, 864e9, 32e9, 12.5e9, 142},  // 48 GB, with ECC's share
      {"b300-sxm", 270, 2.25e15, 2.25e15, 75e12, 8e12, 900e9, 100e9, 148},
      {"gb200", 186, 2.5e15, 2.5e15, 80e12, 8e12, 900e9, 50e9, 152, 72},
      {"gb300", 279, 2.5e15, 2.5e15, 80e12, 8e12, 900e9, 100e9, 152, 72},
      {"mi300x", 192, 1307.4e12, 1307.4e12, 163.4e12, 5.3e12, 448e9, 50e9, 304},
  };
  EXPECT_EQ(DevicePresetNames().size(), sheets.size());
  for (const Sheet& sheet : sheets) {
    const auto cluster = PresetCluster(sheet.name);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    const NodeGroup& group = cluster->groups[0];
    const DeviceSpec& device = group.device;
    EXPECT_EQ(device.name, sheet.name);
    EXPECT_EQ(device.kind, DeviceKind::kCuda);
    // A data sheet's gigabyte is 2^30 bytes here, and the driver reports nearly all of them.
    EXPECT_NEAR(static_cast<double>(device.memory_bytes) / 1073741824, sheet.gigabytes,
                0.006 * sheet.gigabytes)
        << sheet.name;
    EXPECT_EQ(device.flops_per_s_bf16, sheet.bf16) << sheet.name;
    EXPECT_EQ(device.flops_per_s_fp16, sheet.fp16) << sheet.name;
    EXPECT_EQ(device.flops_per_s_fp32, sheet.fp32) << sheet.name;
    EXPECT_EQ(device.memory_bytes_per_s, sheet.memory) << sheet.name;
    EXPECT_EQ(device.multiprocessors, sheet.multiprocessors) << sheet.name;
    EXPECT_EQ(group.intra_node_bytes_per_s, sheet.nvlink) << sheet.name;
    EXPECT_EQ(group.inter_node_bytes_per_s, sheet.network) << sheet.name;
    EXPECT_EQ(group.gpus_per_node, sheet.gpus_per_node) << sheet.name;
  }
}

// Checks that every field except a name has a source: one for its whole object, or one of its own. An object
// of figures has a source for all of it or names its own.
void ExpectSourced(const std::string& where, const Json& json) {
  if (json.contains("source")) return;
  ASSERT_TRUE(json.contains("sources")) << where;
  std::set<std::string> sourced;
  for (const auto& [key, text] : json["sources"].items()) {
    EXPECT_GT(text.get<std::string>().size(), 10u) << where << ": " << key;
    for (const std::string& field : SourcedFields(key)) sourced.insert(field);
  }
  for (const auto& [field, value] : json.items()) {
    if (field == "sources" || field == "name" || field == "kind" || field == "nodes" ||
        sourced.contains(field))
      continue;
    ASSERT_TRUE(value.is_object()) << where << ": " << field << " has no source";
    ExpectSourced(fmt::format("{}: {}", where, field), value);
  }
}

TEST(Presets, EachFigureHasASource) {
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    ExpectSourced(std::string(preset.name), Json::parse(preset.json));
  }
}

}  // namespace
}  // namespace autocfg
