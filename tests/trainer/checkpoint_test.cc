// Weights to files and back, whatever the layout; and every way in which a file can be wrong.
#include "trainer/run/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "tests/trainer/thread_ranks.h"
#include "trainer/errors.h"
#include "trainer/run/file.h"
#include "trainer/run/safetensors.h"
#include "trainer/run/train_loop.h"

namespace autocfg {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint()
      : directory_(
            fs::path(::testing::TempDir()) /
            ("checkpoint_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::create_directories(directory_);
  }
  ~Checkpoint() override { fs::remove_all(directory_); }

  std::string Path(const std::string& name) const { return (directory_ / name).string(); }

  // Trains `steps` steps under a plan, saves, and returns the weights.
  testing::JobOutcome TrainAndSave(TrainConfig c, const std::string& name) {
    return testing::RunAsThreads(c, testing::World::kUcx,
                                 [&](RankTrainer& trainer) { trainer.Save(Path(name)); });
  }

  // The message of loading a file into the small model, or another, on one rank.
  std::string LoadError(const std::string& path, TrainConfig c = testing::SmallConfig()) {
    c.init_path = path;
    auto rendezvous = CreateLocalRendezvous(1);
    Backend backend = CreateBackend("cpu", *rendezvous[0]);
    try {
      RankTrainer trainer(c, 0, 1, backend);
    } catch (const BadInput& e) {
      return e.what();
    }
    return "no error";
  }

  // Writes a file of a given header and as many data bytes.
  std::string WriteRaw(const std::string& header, std::size_t data_bytes, std::uint64_t claimed = 0) {
    const std::string path = Path("raw.safetensors");
    std::ofstream out(path, std::ios::binary);
    const std::uint64_t length = claimed != 0 ? claimed : header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header << std::string(data_bytes, '\0');
    return path;
  }

  fs::path directory_;
};

TrainConfig ShortConfig() {
  TrainConfig c = testing::SmallConfig();
  c.lr.steps = 2;
  return c;
}

TEST_F(Checkpoint, HoldsHuggingFacesNamesAndShapes) {
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

TEST_F(Checkpoint, EveryLayoutSavesTheWeightsThatItHolds) {
  for (const ParallelPlan& plan : {ParallelPlan{}, ParallelPlan{.tp = 4},
                                   ParallelPlan{.tp = 2, .pp = 2, .dp = 2}, ParallelPlan{.pp = 4, .dp = 2}}) {
    TrainConfig c = ShortConfig();
    c.plan = plan;
    const testing::JobOutcome saved = TrainAndSave(c, "a.safetensors");
    const SafetensorsFile file(Path("a.safetensors"));
    for (const auto& [name, values] : saved.weights) {
      std::vector<double> stored(values.size());
      file.Read(name, 0, stored);
      EXPECT_EQ(stored, values) << name;
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1) << "something was left behind";
}

TEST_F(Checkpoint, PartsArriveInSeveralPieces) {
  TrainConfig c = ShortConfig();
  c.lr.steps = 1;
  c.model.vocab = 9001;
  c.plan.tp = 2;
  ASSERT_GT(c.model.vocab / 2 * c.model.hidden * 8, kCollectiveStagingBytes);
  const testing::JobOutcome saved = TrainAndSave(c, "a.safetensors");
  const SafetensorsFile file(Path("a.safetensors"));
  std::vector<double> stored(saved.weights.at("transformer.wte.weight").size());
  file.Read("transformer.wte.weight", 0, stored);
  EXPECT_EQ(stored, saved.weights.at("transformer.wte.weight"));
}

TEST_F(Checkpoint, AnotherLayoutStartsFromItToTheBit) {
  TrainConfig c = ShortConfig();
  c.plan = {.tp = 2, .pp = 2};
  const auto saved = TrainAndSave(c, "a.safetensors").weights;
  c.init_path = Path("a.safetensors");
  c.lr.lr = c.lr.min_lr = 0;  // steps that change nothing
  for (const ParallelPlan& plan : {ParallelPlan{}, ParallelPlan{.tp = 4, .dp = 2}, ParallelPlan{.pp = 4}}) {
    c.plan = plan;
    EXPECT_EQ(testing::RunAsThreads(c).weights, saved);
  }
}

TEST_F(Checkpoint, SavesSinglePrecisionAndConvertsBothWays) {
  TrainConfig c = ShortConfig();
  c.workload.precision = *ParsePrecision("fp32");
  const auto saved = TrainAndSave(c, "a.safetensors").weights;
  EXPECT_EQ(SafetensorsFile(Path("a.safetensors")).tensors().at("transformer.wte.weight").dtype, "F32");
  c.init_path = Path("a.safetensors");
  c.lr.lr = c.lr.min_lr = 0;
  c.workload.precision = *ParsePrecision("fp64");
  EXPECT_EQ(testing::RunAsThreads(c).weights, saved) << "fp32 to fp64 is exact";
}

// Rewrites a good file: other names, types, extra tensors.
class Rewriter {
 public:
  explicit Rewriter(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    header = nlohmann::ordered_json::parse(bytes.substr(8, length));
    data = bytes.substr(8 + length);
  }
  void Write(const std::string& path) const {
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << text << data;
  }
  nlohmann::ordered_json header;
  std::string data;
};

TEST_F(Checkpoint, TakesNamesWithoutPrefixAndPassesOverWhatIsTiedOrABuffer) {
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
  EXPECT_EQ(testing::RunAsThreads(c).weights, saved);
}

// A small Llama with grouped-query attention.
TrainConfig LlamaConfig() {
  TrainConfig c = ShortConfig();
  c.model.kv_heads = 2;
  c.model.ffn_hidden = 40;
  c.model.activation = Activation::kSwiGlu;
  c.model.norm = Norm::kRmsNorm;
  c.model.position = Position::kRope;
  c.model.bias = false;
  c.model.tied_embeddings = false;
  return c;
}

TEST_F(Checkpoint, HoldsLlamasNamesAndShapes) {
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

// Element by element: the file's [out, in] against the engine's fused [in, out].
TEST_F(Checkpoint, SplitsAndTransposesWhatLlamaKeepsApart) {
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

TEST_F(Checkpoint, EveryLayoutOfALlamaSavesTheSameFileAndStartsFromIt) {
  TrainConfig c = LlamaConfig();
  const auto saved = TrainAndSave(c, "a.safetensors").weights;
  c.init_path = Path("a.safetensors");
  c.lr.lr = c.lr.min_lr = 0;  // steps that change nothing
  c.adamw.weight_decay = 0;
  const Rewriter want(Path("a.safetensors"));
  for (const ParallelPlan& plan :
       {ParallelPlan{}, ParallelPlan{.tp = 2, .dp = 2}, ParallelPlan{.pp = 4}, ParallelPlan{.tp = 2, .pp = 2},
        ParallelPlan{.pp = 2, .virtual_stages = 2, .schedule = Schedule::kInterleaved}}) {
    c.plan = plan;
    EXPECT_EQ(TrainAndSave(c, "b.safetensors").weights, saved) << "tp=" << plan.tp << " pp=" << plan.pp;
    const Rewriter got(Path("b.safetensors"));
    EXPECT_EQ(got.header, want.header);
    EXPECT_EQ(got.data, want.data) << "tp=" << plan.tp << " pp=" << plan.pp;
  }
}

// Parts of both styles: biases, LayerNorm, learned positions and a tied output layer under Llama's names.
TEST_F(Checkpoint, NamesWhatOnlyOtherModelsHave) {
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
  c.plan = {.pp = 2, .dp = 2};
  EXPECT_EQ(testing::RunAsThreads(c).weights, saved);
}

TEST_F(Checkpoint, TakesLlamasNamesWithoutPrefixAndPassesOverRotaryBuffers) {
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
  EXPECT_EQ(testing::RunAsThreads(c).weights, saved);
}

TEST_F(Checkpoint, NamesTheTensorOfALlamaThatIsMissingWrongOrUnknown) {
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
  EXPECT_THAT(LoadError(bad, llama), HasSubstr("has shape [32, 16]; the model wants [16, 32]"));

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

TEST_F(Checkpoint, ReadsHalfPrecisionTypes) {
  // 1, -2, the least subnormal and 65504 in F16; 1, -2, pi rounded and 2^-126 in BF16.
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

TEST_F(Checkpoint, WritesHalfPrecisionUnderItsOwnName) {
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

TEST_F(Checkpoint, NamesTheTensorThatIsMissingWrongOrUnknown) {
  TrainAndSave(ShortConfig(), "a.safetensors");
  const Rewriter good(Path("a.safetensors"));
  const std::string bad = Path("b.safetensors");

  Rewriter file = good;
  file.header.erase("transformer.h.2.mlp.c_fc.bias");
  file.Write(bad);
  EXPECT_THAT(LoadError(bad), HasSubstr("lacks tensor transformer.h.2.mlp.c_fc.bias"));

  file = good;
  file.header["transformer.h.1.mlp.c_fc.weight"]["shape"] = {128, 32};
  file.Write(bad);
  EXPECT_THAT(LoadError(bad), HasSubstr("tensor transformer.h.1.mlp.c_fc.weight"));
  EXPECT_THAT(LoadError(bad), HasSubstr("has shape [128, 32]; the model wants [32, 128]"));

  file = good;
  file.header["transformer.h.4.ln_1.bias"] = file.header["transformer.ln_f.bias"];
  file.header.erase("transformer.ln_f.bias");
  file.Write(bad);
  EXPECT_THAT(LoadError(bad), HasSubstr("lacks tensor transformer.ln_f.bias"));

  file = good;
  const auto end = file.data.size();
  file.header["transformer.h.4.ln_1.bias"] = {
      {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {end, end + 4}}};
  file.data += "1234";
  file.Write(bad);
  EXPECT_THAT(LoadError(bad),
              HasSubstr("holds tensor transformer.h.4.ln_1.bias, which the model does not have"));

  file = good;
  file.header["transformer.wte.weight"]["dtype"] = "I64";
  file.Write(bad);
  EXPECT_THAT(LoadError(bad), HasSubstr("tensor transformer.wte.weight"));
  EXPECT_THAT(LoadError(bad), HasSubstr("I64"));

  file = good;
  file.data.resize(file.data.size() - 1);
  file.Write(bad);
  EXPECT_THAT(LoadError(bad), HasSubstr("tensor transformer.ln_f.bias of"));
  EXPECT_THAT(LoadError(bad), HasSubstr("is cut off"));
}

// Of every part of a model: by rows, by columns, whole; and of the parts of another rank, by that rank.
TEST_F(Checkpoint, NamesTheTensorThatIsNotFinite) {
  const std::string bad = Path("b.safetensors");
  const auto spoil = [&](const Rewriter& good, const std::string& tensor, std::size_t element, double value) {
    Rewriter file = good;
    const auto begin = file.header.at(tensor).at("data_offsets").at(0).get<std::size_t>();
    std::memcpy(file.data.data() + begin + element * sizeof(value), &value, sizeof(value));
    file.Write(bad);
  };
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  TrainAndSave(ShortConfig(), "a.safetensors");
  const Rewriter gpt2(Path("a.safetensors"));
  spoil(gpt2, "transformer.wte.weight", 60 * 32 + 31, -nan);
  EXPECT_THAT(LoadError(bad),
              HasSubstr("tensor transformer.wte.weight of " + bad + " holds nan, which is no"));
  spoil(gpt2, "transformer.h.3.mlp.c_fc.bias", 0, -inf);
  EXPECT_THAT(LoadError(bad), HasSubstr("tensor transformer.h.3.mlp.c_fc.bias of " + bad + " holds -inf"));
  spoil(gpt2, "transformer.h.3.mlp.c_fc.bias", 0, 1e39);
  EXPECT_EQ(LoadError(bad), "no error") << "finite in double precision";
  TrainConfig single = ShortConfig();
  single.workload.precision = *ParsePrecision("fp32");
  EXPECT_THAT(LoadError(bad, single), HasSubstr("holds 1e+39, which is too large for this precision"));

  const TrainConfig llama = LlamaConfig();
  TrainAndSave(llama, "a.safetensors");
  const Rewriter good(Path("a.safetensors"));
  for (const char* name : {"model.layers.1.self_attn.k_proj.weight", "model.layers.1.mlp.up_proj.weight",
                           "lm_head.weight", "model.norm.weight"}) {
    spoil(good, name, 7, inf);
    EXPECT_THAT(LoadError(bad, llama), HasSubstr(fmt::format("tensor {} of {} holds inf", name, bad)));
  }
}

// On any layout: no rank waits for another, and what was there stays.
TEST_F(Checkpoint, RunThatDivergedSavesNothing) {
  for (const ParallelPlan& plan :
       {ParallelPlan{}, ParallelPlan{.tp = 2}, ParallelPlan{.dp = 2}, ParallelPlan{.tp = 2, .pp = 2, .dp = 2},
        ParallelPlan{.pp = 2, .virtual_stages = 2, .schedule = Schedule::kInterleaved}}) {
    for (const bool diverges : {true, false}) {
      std::ofstream(Path("a.safetensors")) << "good weights";
      TrainConfig c = ShortConfig();
      c.plan = plan;
      c.lr.steps = 4;
      c.workload.precision = *ParsePrecision("fp32");
      c.save_path = Path("a.safetensors");
      if (diverges) c.lr.lr = c.lr.min_lr = c.adamw.weight_decay = 1e9;
      const int ranks = static_cast<int>(RankCount(plan));
      auto rendezvous = CreateLocalRendezvous(ranks);
      std::vector<v1::TrainResult> results(static_cast<std::size_t>(ranks));
      testing::RunThreads(ranks, [&](int rank) {
        Backend backend = CreateBackend("cpu", *rendezvous[static_cast<std::size_t>(rank)]);
        results[static_cast<std::size_t>(rank)] = Train(c, rank, ranks, backend, {});
      });
      std::ostringstream text;
      text << std::ifstream(Path("a.safetensors"), std::ios::binary).rdbuf();
      EXPECT_EQ(text.str() == "good weights", diverges) << "tp=" << plan.tp << " pp=" << plan.pp;
      for (const v1::TrainResult& result : results) {
        const bool finite = std::isfinite(result.losses(3)) && std::isfinite(result.grad_norms(3));
        EXPECT_EQ(finite, !diverges);
      }
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1) << "something was left behind";
}

TEST_F(Checkpoint, RefusesFilesThatAreNoSafetensors) {
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return fmt::format(R"({{"wte.weight":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape,
                       offsets);
  };
  EXPECT_THAT(LoadError(Path("none.safetensors")), HasSubstr("No such file"));
  std::ofstream(Path("short.safetensors")) << "abc";
  EXPECT_THAT(LoadError(Path("short.safetensors")), HasSubstr("it has 3 bytes"));
  EXPECT_THAT(LoadError(WriteRaw("{}", 0, 1000)), HasSubstr("cut off"));
  EXPECT_THAT(LoadError(WriteRaw("{}", 0, ~std::uint64_t{0})), HasSubstr("asks for a header of"));
  EXPECT_THAT(LoadError(WriteRaw("{\"a\":", 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(LoadError(WriteRaw("[]", 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(LoadError(WriteRaw(R"({"wte.weight":3})", 0)), HasSubstr("tensor wte.weight"));
  EXPECT_THAT(LoadError(WriteRaw(entry("F99", "[1]", "[0,4]"), 4)), HasSubstr("unknown type \"F99\""));
  EXPECT_THAT(LoadError(WriteRaw(entry("F32", "[2]", "[0,4]"), 4)), HasSubstr("does not fit its shape [2]"));
  EXPECT_THAT(LoadError(WriteRaw(entry("F32", "[-1]", "[0,4]"), 4)), HasSubstr("no list of sizes"));
  EXPECT_THAT(LoadError(WriteRaw(entry("F32", "[1]", "[4,0]"), 4)), HasSubstr("no begin and end"));
  EXPECT_THAT(LoadError(WriteRaw(entry("F32", "[4611686018427387904,4611686018427387904]", "[0,4]"), 4)),
              HasSubstr("does not fit its shape"));
  EXPECT_THAT(LoadError(WriteRaw(entry("F32", "[1]", "[100,104]"), 4)), HasSubstr("is cut off"));
  EXPECT_THAT(LoadError(WriteRaw(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                 R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                 8)),
              HasSubstr("overlaps tensor a"));
}

TEST_F(Checkpoint, SaysWhereItCannotBeWritten) {
  const auto error = [](const std::string& path) -> std::string {
    try {
      CheckSavePath(path);
    } catch (const BadInput& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error(Path("new.safetensors")), IsEmpty());
  EXPECT_THAT(error(directory_.string()), HasSubstr("it is a directory"));
  EXPECT_THAT(error(Path("none/new.safetensors")), HasSubstr("there is no directory"));
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(error(Path("fifo")), HasSubstr("it is not a regular file"));
  EXPECT_THROW(FileReplacement(Path("fifo")), BadInput);
  EXPECT_TRUE(std::filesystem::is_fifo(Path("fifo"))) << "never replaced";
}

TEST_F(Checkpoint, WritesWhereASymbolicLinkPoints) {
  std::ofstream(Path("target")) << "old";
  std::filesystem::create_symlink(Path("target"), Path("link"));
  FileReplacement file(Path("link"));
  file.Append("new", 3);
  file.Finish();
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  std::string text;
  std::ifstream(Path("target")) >> text;
  EXPECT_EQ(text, "new");
}

TEST_F(Checkpoint, WritesWhereASymbolicLinkPointsThoughNothingIsThereYet) {
  std::filesystem::create_symlink("target", Path("link"));
  FileReplacement file(Path("link"));
  file.Append("new", 3);
  file.Finish();
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_TRUE(std::filesystem::is_regular_file(Path("target")));
}

}  // namespace
}  // namespace autocfg
