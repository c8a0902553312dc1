#include "cli/input/inputs.h"

#include <gtest/gtest.h>

#include <utility>

#include "search/plan/legality.h"
#include "search/plan/plan_text.h"
#include "tests/cli/program.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

// Expects the status's message to contain every one of `parts`.
void ExpectSays(const absl::Status& status, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " not in: " << status;
}

absl::StatusOr<ModelSpec> LoadModel(const std::string& text, std::int64_t seq_len) {
  std::vector<std::string> notes;
  auto model = cli::LoadModel(text, seq_len, notes);
  EXPECT_TRUE(notes.empty());
  return model;
}

TEST(LoadSeqLen, EmptyMeansTheModelsOwn) {
  EXPECT_EQ(*LoadSeqLen(""), 0);
  EXPECT_EQ(*LoadSeqLen("2048"), 2048);
  for (const char* wrong : {"0", "-1", "1e3", "100000001"})
    EXPECT_TRUE(absl::IsInvalidArgument(LoadSeqLen(wrong).status())) << wrong;
}

TEST(LoadModel, PresetWithItsDefaults) {
  const auto model = LoadModel("gpt2-tiny", 0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->ffn_hidden, 4 * model->hidden);
  EXPECT_EQ(model->max_seq_len, 64);
}

TEST(LoadModel, UnknownPresetNamesTheNearest) {
  const auto status = LoadModel("gpt2-tinny", 0).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  ExpectSays(status, {"--model", "gpt2-tinny", "gpt2-tiny"});
}

TEST(LoadModel, OurOwnFormat) {
  const ScratchDirectory dir;
  const auto file = dir.Write("m.json", R"({"layers": 2, "hidden": 32, "heads": 2, "vocab": 100})");
  const auto model = LoadModel(file, 48);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->max_seq_len, 48) << "as the sequence length asked for";
}

// The first Gemma's tensors have the names and shapes of Llama's, but its norms store what is added to 1.
// Those of Gemma 2 have names of their own. Cohere's, Helium's and ERNIE's queries and keys pair neighbouring
// dims (transformers: rotate_half of modeling_cohere.py, modeling_helium.py and modeling_ernie4_5.py).
TEST(CheckStoredWeights, RefusesWhatMeansOtherThings) {
  const ScratchDirectory dir;
  EXPECT_TRUE(CheckStoredWeights("gpt2-tiny").ok());
  EXPECT_TRUE(CheckStoredWeights(dir.Write("l.json", R"({"model_type": "llama"})")).ok());
  EXPECT_TRUE(CheckStoredWeights(dir.Write("2.json", R"({"model_type": "gemma2"})")).ok());
  const absl::Status status = CheckStoredWeights(dir.Write("1.json", R"({"model_type": "gemma"})"));
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  ExpectSays(status, {"norms of gemma", "added to 1", "not supported yet"});
  for (const char* type : {"cohere", "ernie4_5", "helium"}) {
    const std::string json = std::string(R"({"model_type": ")") + type + "\"}";
    ExpectSays(CheckStoredWeights(dir.Write("r.json", json)),
               {type, "rotary embeddings of neighbouring dims"});
  }
}

TEST(LoadModel, BadFiles) {
  const ScratchDirectory dir;
  EXPECT_TRUE(absl::IsNotFound(LoadModel(dir / "none.json", 0).status()));
  ExpectSays(LoadModel(dir / "none.json", 0).status(), {"none.json"});
  ExpectSays(LoadModel(dir.path(), 0).status(), {"directory"});
  ExpectSays(LoadModel(dir.Write("a.json", "{\"layers\": 2,"), 0).status(), {"a.json", "JSON"});
  ExpectSays(LoadModel(dir.Write("b.json", "[1]"), 0).status(), {"b.json", "object"});
  ExpectSays(
      LoadModel(dir.Write("c.json", R"({"layers": 0, "hidden": 32, "heads": 2, "vocab": 100})"), 0).status(),
      {"layers"});
  ExpectSays(LoadModel(dir.Write("d.json", R"({"layers": "two", "hidden": 32, "heads": 2, "vocab": 100})"), 0)
                 .status(),
             {"layers"});
  ExpectSays(LoadModel(dir.Write("e.json", R"({"layers": 2, "hidden": 32, "heads": 2})"), 0).status(),
             {"vocab"});
  ExpectSays(LoadModel(dir.Write("f.json", R"({"layers": 1e300, "hidden": 32, "heads": 2, "vocab": 100})"), 0)
                 .status(),
             {"layers"});
  const auto other_type =
      LoadModel(dir.Write("config.json", R"({"model_type": "mamba", "n_layer": 2})"), 0).status();
  EXPECT_TRUE(absl::IsUnimplemented(other_type));
  ExpectSays(other_type, {"config.json", "mamba", "not supported yet"});
}

TEST(LoadModel, NotesThatTheTextPartAloneIsTaken) {
  const ScratchDirectory dir;
  std::vector<std::string> notes;
  const auto model = cli::LoadModel(
      dir.Write("config.json",
                R"({"model_type": "mistral3", "text_config": {"num_hidden_layers": 2, "hidden_size": 64,
          "num_attention_heads": 8, "intermediate_size": 128, "vocab_size": 99, "sliding_window": null}})"),
      0, notes);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(notes, std::vector<std::string>{"of the mistral3 in config.json the text part alone is taken"});
}

TEST(LoadModel, HuggingFaceConfig) {
  const ScratchDirectory dir;
  const auto model = LoadModel(
      dir.Write("config.json",
                R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 99})"),
      0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->head_dim, 8);
  EXPECT_EQ(model->max_seq_len, 1024);
}

// Python writes numbers that JSON lacks. They matter in fields that are read alone.
TEST(LoadModel, NotANumberInHuggingFaceConfig) {
  const ScratchDirectory dir;
  const auto load = [&](const std::string& fields) {
    return LoadModel(dir.Write("config.json",
                               R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2,
                                   "vocab_size": 100, "text": "say \"NaN\" or Infinity", )" +
                                   fields + "}"),
                     0);
  };
  const auto unread = load(R"("time_step_limit": [0.0, Infinity], "low": -Infinity, "scale":NaN)");
  EXPECT_TRUE(unread.ok()) << unread.status();
  ExpectSays(load(R"("initializer_range": NaN)").status(), {"initializer_range", "NaN", "must be a number"});
}

TEST(LoadCluster, Local) {
  const auto local = LoadCluster("local");
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ(RankCount(*local), static_cast<std::int64_t>(worker::PhysicalCores().size()));
  const auto four = LoadCluster("local:1x4");
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(RankCount(*four), 4);
}

TEST(LoadCluster, OfAnAnswer) {
  const ScratchDirectory dir;
  const auto cluster = LoadCluster(dir.Write(
      "best.json", R"({"best": null, "cluster": {"name": "two", "nodes": 2, "gpus_per_node": 4, "device":
          {"kind": "cuda", "memory_bytes": 80e9, "memory_bytes_per_s": 2e12, "flops_per_s": {"bf16": 3e14}},
          "intra_node_bytes_per_s": 3e11, "inter_node_bytes_per_s": 2e10}})"));
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(RankCount(*cluster), 8);
  const auto none = LoadCluster(dir.Write("none.json", R"({"best": null, "cluster": null})"));
  EXPECT_NE(none.status().message().find("the answer describes no cluster"), std::string::npos);
}

TEST(LoadCluster, RejectsBadNames) {
  for (const char* bad :
       {"", "local:0x4", "local:1x0", "local:2x4", "local:1x-1", "local:x", "local:1x99999999", "local:"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(LoadCluster(bad).status()))
        << bad << ": " << LoadCluster(bad).status();
  }
  const auto gpus = LoadCluster("a100-80gb-sxm:64x8");
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_EQ(RankCount(*gpus), 512);
  EXPECT_FALSE(gpus->local);
  const auto measured = MeasuredHere("a100-80gb-sxm:64x8", *gpus, {.engine = EngineDevice::kCpu}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(measured)) << measured;
  ExpectSays(measured, {"--cluster: a100-80gb-sxm:64x8", "--predict-only", "--device paced"});
  const auto unknown = LoadCluster("locl").status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  ExpectSays(unknown, {"did you mean local"});
}

// Writes a cluster of CPU nodes with `ranks` ranks per node and `bytes` bytes per rank.
std::string CpuCluster(const ScratchDirectory& dir, std::int64_t nodes, std::int64_t ranks,
                       std::int64_t bytes) {
  return dir.Write("cluster.json", R"({"device": {"name": "cpu", "memory_bytes": )" + std::to_string(bytes) +
                                       R"(}, "nodes": )" + std::to_string(nodes) + R"(, "gpus_per_node": )" +
                                       std::to_string(ranks) + "}");
}

TEST(MeasuredHere, MemoryIsLimitedByThisMachine) {
  const ScratchDirectory dir;
  const auto small = LoadCluster(CpuCluster(dir, 1, 1, 1000));
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_FALSE(small->local) << "described, not measured yet";
  const auto here = MeasuredHere("cluster.json", *small, {.engine = EngineDevice::kCpu});
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_TRUE(here->local);
  EXPECT_EQ(MemoryCapacity(*here), 1000);
  const auto huge = LoadCluster(CpuCluster(dir, 1, 1, 1'000'000'000'000'000));
  ASSERT_TRUE(huge.ok()) << huge.status();
  EXPECT_EQ(MemoryCapacity(*huge), 1'000'000'000'000'000);
  EXPECT_LE(MemoryCapacity(*MeasuredHere("cluster.json", *huge, {.engine = EngineDevice::kCpu})),
            worker::MemoryLimitBytes());
}

TEST(MeasuredHere, SingleNodeIsLocal) {
  const ScratchDirectory dir;
  const auto cores = static_cast<std::int64_t>(worker::PhysicalCores().size());
  for (const std::int64_t nodes : {1, 3}) {
    const auto cluster = LoadCluster(CpuCluster(dir, nodes, 2 * cores, 1'000'000'000'000'000));
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    const auto here = MeasuredHere("cluster.json", *cluster, {.engine = EngineDevice::kCpu});
    ASSERT_TRUE(here.ok()) << here.status();
    EXPECT_EQ(here->local, nodes == 1);
    EXPECT_EQ(RankCount(*here), nodes * 2 * cores);
    EXPECT_EQ(MemoryCapacity(*here), MemoryCapacity(*worker::LocalCluster(2 * cores)));
    EXPECT_EQ(here->groups[0].ranks_per_core, nodes == 1 ? 2 : 1) << "a slice has a core of its own";
    EXPECT_TRUE(Validate(*here).ok()) << Validate(*here);
  }
  const auto asked = LoadCluster("local:1x" + std::to_string(2 * cores));
  const auto here = MeasuredHere("local", *asked, {.engine = EngineDevice::kCpu});
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ(*here, *asked);
}

TEST(LoadCluster, BadFiles) {
  const ScratchDirectory dir;
  EXPECT_TRUE(absl::IsNotFound(LoadCluster(dir / "none.json").status()));
  EXPECT_FALSE(LoadCluster(dir.Write("bad.json", "{}")).ok());
}

TEST(LoadDescribedCluster, LocalHasNoFigures) {
  for (const char* text : {"local", "local:1x2"}) {
    const auto status = LoadDescribedCluster(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    ExpectSays(status, {"--cluster: local has no figures", "preset", "autocfg search"});
  }
}

TEST(LoadPlan, TextAndJson) {
  EXPECT_EQ(*LoadPlan("tp=2,pp=1,dp=4,mbs=2"), *LoadPlan(R"({"tp": 2, "pp": 1, "dp": 4, "micro_batch": 2})"));
  for (const char* bad : {"tp", "tp=two", "tp=2,tp=2", "ttp=2", "{", "tp=-1", "schedule=none"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(LoadPlan(bad).status())) << bad;
  }
}

TEST(CheckPlan, GivesTheReasonForIllegalPlans) {
  const auto model = LoadModel("gpt2-tiny", 0);
  const Workload workload{8, 64, *ParsePrecision("fp32")};
  const auto status = CheckPlan({*model, workload, *LoadPlan("tp=8")}, 1 << 20).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  ExpectSays(status, {"tp=8", "heads"});
  EXPECT_TRUE(CheckPlan({*model, workload, *LoadPlan("tp=2")}, 2).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckPlan({*model, workload, *LoadPlan("tp=4")}, 2).status()))
      << "more ranks than there are";
}

TEST(CheckPlan, AcceptsWhatTheEngineRuns) {
  const auto model = LoadModel("gpt2-tiny", 0);
  const Workload workload{8, 64, *ParsePrecision("fp32")};
  for (const char* text : {"pp=2,vpp=2,mbs=1", "pp=2,split=1+3", "pp=2,split=auto", "recompute=full:1",
                           "attention=unfused", "attention=unfused,recompute=selective"}) {
    const auto plan = CheckPlan({*model, workload, *LoadPlan(text)}, 8);
    EXPECT_TRUE(plan.ok()) << text << ": " << plan.status();
  }
}

TEST(LoadPlannedPrecision, AcceptsAllThatAnEngineMayRun) {
  EXPECT_EQ(*LoadPlannedPrecision(""), *ParsePrecision("fp32"));
  for (const char* name : {"fp64", "fp32", "bf16", "fp16"})
    EXPECT_EQ(*LoadPlannedPrecision(name), *ParsePrecision(name));
  ExpectSays(LoadPlannedPrecision("fp4").status(), {"--precision", "fp4", "bf16"});
  EXPECT_TRUE(absl::IsUnimplemented(LoadPlannedPrecision("fp8").status())) << "predicted, not run";
}

TEST(LoadPrecision, CpuAcceptsFp64AndFp32) {
  EXPECT_EQ(*LoadPrecision(""), *ParsePrecision("fp32"));
  EXPECT_TRUE(LoadPrecision("fp64").ok());
  EXPECT_TRUE(absl::IsUnimplemented(LoadPrecision("bf16").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(LoadPrecision("fp23").status()));
  EXPECT_EQ(LoadPrecision("bf17").status().message().find("bf16"), std::string::npos) << "refused when given";
}

TEST(LoadDevice, Names) {
  for (const char* chosen_here : {"", "auto"}) EXPECT_EQ(*LoadDevice(chosen_here, false), std::nullopt);
  EXPECT_EQ(*LoadDevice("cpu", false), EngineDevice::kCpu);
  EXPECT_EQ(*LoadDevice("cuda", false), EngineDevice::kCuda);
  EXPECT_EQ(*LoadDevice("dry", true), EngineDevice::kDry);
  EXPECT_TRUE(absl::IsInvalidArgument(LoadDevice("dry", false).status()));
  EXPECT_EQ(*LoadDevice("paced", true), EngineDevice::kPaced);
  EXPECT_EQ(*LoadDevice("paced", false), EngineDevice::kPaced);
  EXPECT_EQ(
      LoadDevice("gpu", true).status(),
      absl::InvalidArgumentError("--device: unknown device 'gpu'; expected auto, cpu, cuda, paced or dry"));
  EXPECT_EQ(LoadDevice("gpu", false).status(),
            absl::InvalidArgumentError("--device: unknown device 'gpu'; expected auto, cpu, cuda or paced"));
}

TEST(LoadSpace, AxesAndValues) {
  const auto space = LoadSpace({"tp=1,2", "schedule=1f1b"});
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_EQ(*space, (AxisValues{{"tp", {"1", "2"}}, {"schedule", {"1f1b"}}}));
  for (const char* bad : {"", "tp", "tp=", "=1", "tp=1,,2", "tp=1,"})
    EXPECT_FALSE(LoadSpace({bad}).ok()) << bad;
  EXPECT_FALSE(LoadSpace({"tp=1", "tp=2"}).ok());
}

}  // namespace
}  // namespace autocfg::cli
