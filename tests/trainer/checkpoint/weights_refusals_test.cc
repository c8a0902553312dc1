// Tests of every kind of invalid weights file, and of the cases in which no file is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/trainer/checkpoint/weights_fixture.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/checkpoint/file.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/layout/errors.h"
#include "trainer/run/train_loop.h"

namespace autocfg::trainer {
namespace {

namespace fs = std::filesystem;
using test::LlamaConfig;
using test::Rewriter;
using test::SavedWeights;
using test::ShortConfig;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(SavedWeights, NamesMissingWrongOrUnknownTensor) {
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
  EXPECT_THAT(LoadError(bad), HasSubstr("has shape [128, 32]; the model expects [32, 128]"));

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

// Covers every kind of parameter: split by rows, split by columns, not split; and parts of another rank,
// checked by that rank.
TEST_F(SavedWeights, NamesNonFiniteTensor) {
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
              HasSubstr("tensor transformer.wte.weight of " + bad + " holds nan, which is not finite"));
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

// On any layout no rank waits for another, and an existing file is kept.
TEST_F(SavedWeights, DivergedRunSavesNothing) {
  for (const ParallelPlan& plan :
       {ParallelPlan{}, ParallelPlan{{.tp = 2}}, ParallelPlan{{.dp = 2}},
        ParallelPlan{{.tp = 2, .pp = 2, .dp = 2}},
        ParallelPlan{{.pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}}}) {
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
      test::RunThreads(ranks, [&](int rank) {
        Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[static_cast<std::size_t>(rank)]);
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
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), {}), 1) << "something was left behind";
}

TEST_F(SavedWeights, RejectsInvalidSafetensors) {
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return fmt::format(R"({{"wte.weight":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape,
                       offsets);
  };
  EXPECT_THAT(LoadError(Path("none.safetensors")), HasSubstr("No such file"));
  std::ofstream(Path("short.safetensors")) << "abc";
  EXPECT_THAT(LoadError(Path("short.safetensors")), HasSubstr("it has 3 bytes"));
  EXPECT_THAT(LoadError(WriteRaw("{}", 0, 1000)), HasSubstr("cut off"));
  EXPECT_THAT(LoadError(WriteRaw("{}", 0, ~std::uint64_t{0})), HasSubstr("claims a header of"));
  EXPECT_THAT(LoadError(WriteRaw("{\"a\":", 0)), HasSubstr("not a JSON object"));
  EXPECT_THAT(LoadError(WriteRaw("[]", 0)), HasSubstr("not a JSON object"));
  EXPECT_THAT(LoadError(WriteRaw(R"({"wte.weight":3})", 0)), HasSubstr("tensor wte.weight"));
  EXPECT_THAT(LoadError(WriteRaw(entry("F99", "[1]", "[0,4]"), 4)), HasSubstr("unknown type \"F99\""));
  EXPECT_THAT(LoadError(WriteRaw(entry("F32", "[2]", "[0,4]"), 4)),
              HasSubstr("does not match its shape [2]"));
  EXPECT_THAT(LoadError(WriteRaw(entry("F32", "[-1]", "[0,4]"), 4)), HasSubstr("not a list of sizes"));
  EXPECT_THAT(LoadError(WriteRaw(entry("F32", "[1]", "[4,0]"), 4)), HasSubstr("expected begin and end"));
  EXPECT_THAT(LoadError(WriteRaw(entry("F32", "[4611686018427387904,4611686018427387904]", "[0,4]"), 4)),
              HasSubstr("does not match its shape"));
  EXPECT_THAT(LoadError(WriteRaw(entry("F32", "[1]", "[100,104]"), 4)), HasSubstr("is cut off"));
  EXPECT_THAT(LoadError(WriteRaw(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                 R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                 8)),
              HasSubstr("overlaps tensor a"));
}

TEST_F(SavedWeights, ReportsUnwritablePath) {
  const auto error = [](const std::string& path) -> std::string {
    try {
      CheckSavePath(path);
    } catch (const BadInput& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error(Path("new.safetensors")), IsEmpty());
  EXPECT_THAT(error(directory_.path().string()), HasSubstr("it is a directory"));
  EXPECT_THAT(error(Path("none/new.safetensors")), HasSubstr("none does not exist"));
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(error(Path("fifo")), HasSubstr("it is not a regular file"));
  EXPECT_THROW(FileReplacement(Path("fifo")), BadInput);
  EXPECT_TRUE(std::filesystem::is_fifo(Path("fifo"))) << "never replaced";
}

TEST_F(SavedWeights, WritesToTheTargetOfASymbolicLink) {
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

TEST_F(SavedWeights, WritesToTheMissingTargetOfASymbolicLink) {
  std::filesystem::create_symlink("target", Path("link"));
  FileReplacement file(Path("link"));
  file.Append("new", 3);
  file.Finish();
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_TRUE(std::filesystem::is_regular_file(Path("target")));
}

}  // namespace
}  // namespace autocfg::trainer
