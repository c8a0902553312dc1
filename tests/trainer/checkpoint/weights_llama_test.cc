// Tests of saving and loading a Llama's weights: its names, and tensors that its files store separately.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/trainer/checkpoint/weights_fixture.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/weights.h"

namespace autocfg::trainer {
namespace {

using test::LlamaConfig;
using test::Rewriter;
using test::SavedWeights;
using test::ShortConfig;
using ::testing::HasSubstr;

TEST_F(SavedWeights, HasLlamaNamesAndShapes) {
  TrainAndSave(LlamaConfig(), "a.safetensors");
  const SafetensorsFile file(Path("a.safetensors"));
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(file.tensors().size(), 1u + 4 * 9 + 2);
  EXPECT_EQ(file.tensors().at("model.embed_tokens.weight").shape, (Shape{61, 32}));
  EXPECT_EQ(file.tensors().at("model.layers.0.input_layernorm.weight").shape, (Shape{32}));
  EXPECT_EQ(file.tensors().at("model.layers.0.self_attn.q_proj.weight").shape, (Shape{32, 32}));
  EXPECT_EQ(file.tensors().at("model.layers.1.self_attn.k_proj.weight").shape, (Shape{16, 32}));
  EXPECT_EQ(file.tensors().at("model.layers.2.self_attn.v_proj.weight").shape, (Shape{16, 32}));
  EXPECT_EQ(file.tensors().at("model.layers.3.self_attn.o_proj.weight").shape, (Shape{32, 32}));
  EXPECT_EQ(file.tensors().at("model.layers.3.post_attention_layernorm.weight").shape, (Shape{32}));
  EXPECT_EQ(file.tensors().at("model.layers.3.mlp.gate_proj.weight").shape, (Shape{40, 32}));
  EXPECT_EQ(file.tensors().at("model.layers.3.mlp.up_proj.weight").shape, (Shape{40, 32}));
  EXPECT_EQ(file.tensors().at("model.layers.3.mlp.down_proj.weight").shape, (Shape{32, 40}));
  EXPECT_EQ(file.tensors().at("model.norm.weight").shape, (Shape{32}));
  EXPECT_EQ(file.tensors().at("lm_head.weight").shape, (Shape{61, 32}));
}

// Compares each element of the file's [out, in] with the engine's fused [in, out].
TEST_F(SavedWeights, SplitsAndTransposesLlamaTensors) {
  const auto weights = TrainAndSave(LlamaConfig(), "a.safetensors").weights;
  const SafetensorsFile file(Path("a.safetensors"));
  const auto expect_columns = [&](const std::string& stored, const std::string& ours, std::int64_t in,
                                  std::int64_t all, std::int64_t first, std::int64_t out) {
    std::vector<double> values(static_cast<std::size_t>(in * out));
    file.Read(stored, 0, values);
    const std::vector<double>& whole = weights.at(ours);
    ASSERT_EQ(static_cast<std::int64_t>(whole.size()), in * all);
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t i = 0; i < in; ++i)
        ASSERT_EQ(values[o * in + i], whole[i * all + first + o]) << stored;
    }
  };
  const std::string theirs = "model.layers.1.", ours = "transformer.h.1.";
  expect_columns(theirs + "self_attn.q_proj.weight", ours + "attn.c_attn.weight", 32, 64, 0, 32);
  expect_columns(theirs + "self_attn.k_proj.weight", ours + "attn.c_attn.weight", 32, 64, 32, 16);
  expect_columns(theirs + "self_attn.v_proj.weight", ours + "attn.c_attn.weight", 32, 64, 48, 16);
  expect_columns(theirs + "self_attn.o_proj.weight", ours + "attn.c_proj.weight", 32, 32, 0, 32);
  expect_columns(theirs + "mlp.gate_proj.weight", ours + "mlp.c_fc.weight", 32, 80, 0, 40);
  expect_columns(theirs + "mlp.up_proj.weight", ours + "mlp.c_fc.weight", 32, 80, 40, 40);
  expect_columns(theirs + "mlp.down_proj.weight", ours + "mlp.c_proj.weight", 40, 32, 0, 32);
}

TEST_F(SavedWeights, EveryLlamaLayoutSavesTheSameFileAndLoadsIt) {
  TrainConfig c = LlamaConfig();
  const auto saved = TrainAndSave(c, "a.safetensors").weights;
  c.init_path = Path("a.safetensors");
  c.lr.lr = c.lr.min_lr = 0;  // the steps change nothing
  c.adamw.weight_decay = 0;
  const Rewriter want(Path("a.safetensors"));
  for (const ParallelPlan& plan :
       {ParallelPlan{}, ParallelPlan{{.tp = 2, .dp = 2}}, ParallelPlan{{.pp = 4}},
        ParallelPlan{{.tp = 2, .pp = 2}},
        ParallelPlan{{.pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}}}) {
    c.plan = plan;
    EXPECT_EQ(TrainAndSave(c, "b.safetensors").weights, saved) << "tp=" << plan.tp << " pp=" << plan.pp;
    const Rewriter got(Path("b.safetensors"));
    EXPECT_EQ(got.header, want.header);
    EXPECT_EQ(got.data, want.data) << "tp=" << plan.tp << " pp=" << plan.pp;
  }
}

// OLMo 2's and Gemma 2's names: the same norm of attention's output is in another place of the parameters.
TEST_F(SavedWeights, NormsOnOutputsHaveNamesOfTheirOwn) {
  TrainConfig c = LlamaConfig();
  const std::string layer = "model.layers.1.";
  c.model.norm_placement = NormPlacement::kOutput;
  TrainAndSave(c, "a.safetensors");
  const auto names = SafetensorsFile(Path("a.safetensors")).tensors();
  EXPECT_EQ(names.size(), 1u + 4 * 9 + 2);
  EXPECT_TRUE(names.contains(layer + "post_attention_layernorm.weight"));
  EXPECT_TRUE(names.contains(layer + "post_feedforward_layernorm.weight"));
  EXPECT_FALSE(names.contains(layer + "input_layernorm.weight"));

  // With norms on both, what is stored is less by one. In fp32 that is exact for values near one.
  c.model.norm_placement = NormPlacement::kSandwich;
  c.workload.precision = *ParsePrecision("fp32");
  const auto saved = TrainAndSave(c, "b.safetensors").weights;
  const SafetensorsFile file(Path("b.safetensors"));
  EXPECT_EQ(file.tensors().size(), 1u + 4 * 11 + 2);
  std::vector<double> stored(32);
  for (const auto& [theirs, ours] :
       {std::pair(layer + "input_layernorm.weight", "transformer.h.1.ln_1.weight"),
        std::pair(layer + "post_attention_layernorm.weight", "transformer.h.1.ln_1_post.weight"),
        std::pair(layer + "pre_feedforward_layernorm.weight", "transformer.h.1.ln_2.weight"),
        std::pair(layer + "post_feedforward_layernorm.weight", "transformer.h.1.ln_2_post.weight"),
        std::pair(std::string("model.norm.weight"), "transformer.ln_f.weight")}) {
    file.Read(theirs, 0, stored);
    for (std::size_t i = 0; i < stored.size(); ++i) ASSERT_EQ(stored[i] + 1, saved.at(ours)[i]) << theirs;
  }
  c.init_path = Path("b.safetensors");
  c.lr.lr = c.lr.min_lr = 0;  // the steps change nothing
  c.adamw.weight_decay = 0;
  c.plan = {{.tp = 2, .pp = 2}};
  EXPECT_EQ(TrainAndSave(c, "c.safetensors").weights, saved);
  EXPECT_EQ(Rewriter(Path("c.safetensors")).data, Rewriter(Path("b.safetensors")).data);
}

// Combines parts of both styles: biases, LayerNorm, learned positions and a tied output layer under Llama's
// names.
TEST_F(SavedWeights, SavesMixedModelsUnderLlamaNames) {
  TrainConfig c = ShortConfig();
  c.model.kv_heads = 1;
  c.model.activation = Activation::kRelu;
  const auto saved = TrainAndSave(c, "a.safetensors").weights;
  const SafetensorsFile file(Path("a.safetensors"));
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(file.tensors().size(), 2u + 4 * 16 + 2);
  EXPECT_EQ(file.tensors().at("model.embed_positions.weight").shape, (Shape{11, 32}));
  EXPECT_EQ(file.tensors().at("model.layers.0.input_layernorm.bias").shape, (Shape{32}));
  EXPECT_EQ(file.tensors().at("model.layers.0.self_attn.q_proj.bias").shape, (Shape{32}));
  EXPECT_EQ(file.tensors().at("model.layers.0.self_attn.k_proj.bias").shape, (Shape{8}));
  EXPECT_EQ(file.tensors().at("model.layers.0.self_attn.o_proj.bias").shape, (Shape{32}));
  EXPECT_EQ(file.tensors().at("model.layers.0.mlp.up_proj.weight").shape, (Shape{128, 32}));
  EXPECT_EQ(file.tensors().at("model.layers.0.mlp.up_proj.bias").shape, (Shape{128}));
  EXPECT_EQ(file.tensors().at("model.layers.0.mlp.down_proj.bias").shape, (Shape{32}));
  EXPECT_EQ(file.tensors().at("model.norm.bias").shape, (Shape{32}));
  EXPECT_FALSE(file.tensors().contains("lm_head.weight")) << "tied";
  c.init_path = Path("a.safetensors");
  c.lr.lr = c.lr.min_lr = 0;
  c.plan = {{.pp = 2, .dp = 2}};
  EXPECT_EQ(test::RunAsThreads(c).weights, saved);
  // All ranks of the tensor group share the key-value head, whose parameters are beside those of q.
  for (const std::int64_t zero : {0, 3}) {
    c.plan = {{.tp = 4, .dp = 2}};
    c.plan.zero_stage = zero;
    EXPECT_EQ(TrainAndSave(c, "b.safetensors").weights, saved) << "zero=" << zero;
    EXPECT_EQ(Rewriter(Path("b.safetensors")).data, Rewriter(Path("a.safetensors")).data) << "zero=" << zero;
  }
}

TEST_F(SavedWeights, AcceptsLlamaNamesWithoutPrefixAndIgnoresRotaryBuffers) {
  const auto saved = TrainAndSave(LlamaConfig(), "a.safetensors").weights;
  Rewriter file(Path("a.safetensors"));
  nlohmann::ordered_json plain;
  for (const auto& [name, entry] : file.header.items())
    plain[name.starts_with("model.") ? name.substr(6) : name] = entry;
  const auto end = file.data.size();
  plain["layers.0.self_attn.rotary_emb.inv_freq"] = {
      {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end, end + 4}}};
  plain["model.layers.1.self_attn.rotary_emb.inv_freq"] = {
      {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end + 4, end + 8}}};
  file.header = plain;
  file.data += std::string(8, 'x');
  file.Write(Path("b.safetensors"));
  TrainConfig c = LlamaConfig();
  c.init_path = Path("b.safetensors");
  c.lr.lr = c.lr.min_lr = 0;
  EXPECT_EQ(test::RunAsThreads(c).weights, saved);
}

TEST_F(SavedWeights, NamesMissingWrongOrUnknownLlamaTensor) {
  const TrainConfig llama = LlamaConfig();
  TrainAndSave(llama, "a.safetensors");
  const Rewriter good(Path("a.safetensors"));
  const std::string bad = Path("b.safetensors");

  Rewriter file = good;
  file.header.erase("model.layers.2.mlp.gate_proj.weight");
  file.Write(bad);
  EXPECT_THAT(LoadError(bad, llama), HasSubstr("lacks tensor model.layers.2.mlp.gate_proj.weight"));

  file = good;
  file.header.erase("lm_head.weight");
  file.Write(bad);
  EXPECT_THAT(LoadError(bad, llama), HasSubstr("lacks tensor lm_head.weight"));

  file = good;
  file.header["model.layers.1.self_attn.k_proj.weight"]["shape"] = {32, 16};
  file.Write(bad);
  EXPECT_THAT(LoadError(bad, llama), HasSubstr("tensor model.layers.1.self_attn.k_proj.weight"));
  EXPECT_THAT(LoadError(bad, llama), HasSubstr("has shape [32, 16]; the model expects [16, 32]"));

  file = good;
  const auto end = file.data.size();
  file.header["model.layers.1.self_attn.q_proj.bias"] = {
      {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end, end + 4}}};
  file.data += "1234";
  file.Write(bad);
  EXPECT_THAT(LoadError(bad, llama),
              HasSubstr("holds tensor model.layers.1.self_attn.q_proj.bias, which the model does not have"));

  file = good;
  file.header["norm.weight"] = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end, end + 4}}};
  file.data += "1234";
  file.Write(bad);
  EXPECT_THAT(LoadError(bad, llama), HasSubstr("holds tensor model.norm.weight twice"));

  // A file of the other style.
  EXPECT_THAT(LoadError(Path("a.safetensors")), HasSubstr("lacks tensor transformer.wte.weight"));
}

}  // namespace
}  // namespace autocfg::trainer
