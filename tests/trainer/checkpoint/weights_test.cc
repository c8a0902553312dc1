// Tests of saving and loading a GPT-2's weights, for several layouts and types.
#include "trainer/checkpoint/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "search/ops/memory_sizes.h"
#include "tests/trainer/checkpoint/weights_fixture.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/checkpoint/safetensors.h"

namespace autocfg::trainer {
namespace {

namespace fs = std::filesystem;
using test::Rewriter;
using test::SavedWeights;
using test::ShortConfig;

TEST_F(SavedWeights, HasHuggingFaceNamesAndShapes) {
  TrainAndSave(ShortConfig(), "a.safetensors");
  const SafetensorsFile file(Path("a.safetensors"));
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(file.tensors().size(), 2u + 4 * 12 + 2);
  EXPECT_EQ(file.tensors().at("transformer.wte.weight").shape, (Shape{61, 32}));
  EXPECT_EQ(file.tensors().at("transformer.wpe.weight").shape, (Shape{11, 32}));
  EXPECT_EQ(file.tensors().at("transformer.h.3.attn.c_attn.weight").shape, (Shape{32, 96}));
  EXPECT_EQ(file.tensors().at("transformer.h.0.attn.c_attn.bias").shape, (Shape{96}));
  EXPECT_EQ(file.tensors().at("transformer.h.0.mlp.c_proj.weight").shape, (Shape{128, 32}));
  EXPECT_EQ(file.tensors().at("transformer.ln_f.bias").shape, (Shape{32}));
  for (const auto& [name, tensor] : file.tensors()) EXPECT_EQ(tensor.dtype, "F64") << name;
}

TEST_F(SavedWeights, EveryLayoutSavesItsWeights) {
  for (const ParallelPlan& plan :
       {ParallelPlan{}, ParallelPlan{{.tp = 4}}, ParallelPlan{{.tp = 2, .pp = 2, .dp = 2}},
        ParallelPlan{{.pp = 4, .dp = 2}}}) {
    TrainConfig c = ShortConfig();
    c.plan = plan;
    const test::TrainedRun saved = TrainAndSave(c, "a.safetensors");
    const SafetensorsFile file(Path("a.safetensors"));
    for (const auto& [name, values] : saved.weights) {
      std::vector<double> stored(values.size());
      file.Read(name, 0, stored);
      EXPECT_EQ(stored, values) << name;
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 1) << "something was left behind";
}

TEST_F(SavedWeights, SavesPartsLargerThanTheStaging) {
  TrainConfig c = ShortConfig();
  c.lr.steps = 1;
  c.model.vocab = 9001;
  c.plan.tp = 2;
  ASSERT_GT(c.model.vocab / 2 * c.model.hidden * 8, kCollectiveStagingBytes);
  const test::TrainedRun saved = TrainAndSave(c, "a.safetensors");
  const SafetensorsFile file(Path("a.safetensors"));
  std::vector<double> stored(saved.weights.at("transformer.wte.weight").size());
  file.Read("transformer.wte.weight", 0, stored);
  EXPECT_EQ(stored, saved.weights.at("transformer.wte.weight"));
}

TEST_F(SavedWeights, LoadsBitExactlyIntoAnotherLayout) {
  TrainConfig c = ShortConfig();
  c.plan = {{.tp = 2, .pp = 2}};
  const auto saved = TrainAndSave(c, "a.safetensors").weights;
  c.init_path = Path("a.safetensors");
  c.lr.lr = c.lr.min_lr = 0;  // the steps change nothing
  for (const ParallelPlan& plan :
       {ParallelPlan{}, ParallelPlan{{.tp = 4, .dp = 2}}, ParallelPlan{{.pp = 4}}}) {
    c.plan = plan;
    EXPECT_EQ(test::RunAsThreads(c).weights, saved);
  }
}

TEST_F(SavedWeights, SavesSinglePrecisionAndConvertsBothWays) {
  TrainConfig c = ShortConfig();
  c.workload.precision = *ParsePrecision("fp32");
  const auto saved = TrainAndSave(c, "a.safetensors").weights;
  EXPECT_EQ(SafetensorsFile(Path("a.safetensors")).tensors().at("transformer.wte.weight").dtype, "F32");
  c.init_path = Path("a.safetensors");
  c.lr.lr = c.lr.min_lr = 0;
  c.workload.precision = *ParsePrecision("fp64");
  EXPECT_EQ(test::RunAsThreads(c).weights, saved) << "fp32 to fp64 is exact";
}

TEST_F(SavedWeights, AcceptsNamesWithoutPrefixAndIgnoresTiedTensorsAndBuffers) {
  const auto saved = TrainAndSave(ShortConfig(), "a.safetensors").weights;
  Rewriter file(Path("a.safetensors"));
  nlohmann::ordered_json plain;
  for (const auto& [name, entry] : file.header.items()) {
    plain[name.starts_with("transformer.") ? name.substr(12) : name] = entry;
  }
  const auto end = file.data.size();
  plain["lm_head.weight"] = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end, end + 4}}};
  plain["h.0.attn.bias"] = {{"dtype", "BOOL"}, {"shape", {4}}, {"data_offsets", {end + 4, end + 8}}};
  plain["h.0.attn.masked_bias"] = {
      {"dtype", "F32"}, {"shape", nlohmann::ordered_json::array()}, {"data_offsets", {end + 8, end + 12}}};
  file.header = plain;
  file.data += std::string(12, 'x');
  file.Write(Path("b.safetensors"));
  TrainConfig c = ShortConfig();
  c.init_path = Path("b.safetensors");
  c.lr.lr = c.lr.min_lr = 0;
  EXPECT_EQ(test::RunAsThreads(c).weights, saved);
}

TEST_F(SavedWeights, ReadsHalfPrecisionTypes) {
  // 1, -2, the smallest subnormal and 65504 in F16; 1, -2, pi rounded and 2^-126 in BF16.
  const std::uint16_t bits[8] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x3f80, 0xc000, 0x4049, 0x0080};
  const std::string header =
      R"({"h":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2,2],"data_offsets":[8,16]}})";
  const std::string path = WriteRaw(header, 0);
  std::ofstream(path, std::ios::binary | std::ios::app).write(reinterpret_cast<const char*>(bits), 16);
  const SafetensorsFile file(path);
  std::vector<double> values(4);
  file.Read("h", 0, values);
  EXPECT_EQ(values, (std::vector<double>{1, -2, 0x1p-24, 65504}));
  file.Read("b", 0, values);
  EXPECT_EQ(values, (std::vector<double>{1, -2, 3.140625, 0x1p-126}));
  values.resize(1);
  file.Read("b", 2, values);
  EXPECT_EQ(values[0], 3.140625);
}

TEST_F(SavedWeights, WritesTypeNameOfHalfPrecision) {
  const std::uint16_t bits[3] = {0x3f80, 0xc000, 0x4049};  // 1, -2 and pi rounded, in BF16
  WriteSafetensors(Path("half.safetensors"), {{"b", DType::kBF16, {3}}}, [&](std::size_t) {
    return std::span<const char>(reinterpret_cast<const char*>(bits), sizeof(bits));
  });
  const SafetensorsFile file(Path("half.safetensors"));
  EXPECT_EQ(file.tensors().at("b").dtype, "BF16");
  std::vector<double> values(3);
  file.Read("b", 0, values);
  EXPECT_EQ(values, (std::vector<double>{1, -2, 3.140625}));
}

}  // namespace
}  // namespace autocfg::trainer
