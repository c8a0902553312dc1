#include "cli/inputs.h"

#include <gtest/gtest.h>

#include "search/text/plan_text.h"
#include "tests/cli/program.h"
#include "worker/inventory.h"

namespace autocfg {
namespace {

// The status's message holds every one of `parts`.
void ExpectSays(const absl::Status& status, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " not in: " << status;
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

TEST(LoadModel, FileOfOurOwn) {
  const ScratchDirectory dir;
  const auto file = dir.Write("m.json", R"({"layers": 2, "hidden": 32, "heads": 2, "vocab": 100})");
  const auto model = LoadModel(file, 48);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->max_seq_len, 48) << "as the sequence length asked for";
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

TEST(LoadModel, HuggingFaceConfig) {
  const ScratchDirectory dir;
  const auto model = LoadModel(
      dir.Write("config.json", R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 99})"), 0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->head_dim, 8);
  EXPECT_EQ(model->max_seq_len, 1024);
}

TEST(LoadCluster, Local) {
  const auto local = LoadCluster("local");
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ(RankCount(*local), static_cast<std::int64_t>(PhysicalCores().size()));
  const auto four = LoadCluster("local:1x4");
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(RankCount(*four), 4);
}

TEST(LoadCluster, Refusals) {
  for (const char* bad :
       {"", "local:0x4", "local:1x0", "local:2x4", "local:1x-1", "local:x", "local:1x99999999", "local:"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(LoadCluster(bad).status()))
        << bad << ": " << LoadCluster(bad).status();
  }
  const auto gpu = LoadCluster("a100-80gb-sxm:64x8").status();
  EXPECT_TRUE(absl::IsUnimplemented(gpu)) << gpu;
  ExpectSays(gpu, {"a100-80gb-sxm:64x8", "not supported yet"});
  const auto unknown = LoadCluster("locl").status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  ExpectSays(unknown, {"did you mean local"});
}

TEST(LoadCluster, FileIsBoundedByThisMachine) {
  const ScratchDirectory dir;
  const auto small = LoadCluster(dir.Write(
      "small.json", R"({"device": {"name": "cpu", "memory_bytes": 1000}, "nodes": 1, "gpus_per_node": 2})"));
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(RankCount(*small), 2);
  EXPECT_EQ(MemoryCapacity(*small), 1000);
  const auto huge = LoadCluster(dir.Write(
      "huge.json",
      R"({"device": {"name": "cpu", "memory_bytes": 1000000000000000}, "nodes": 1, "gpus_per_node": 2})"));
  ASSERT_TRUE(huge.ok()) << huge.status();
  EXPECT_LE(MemoryCapacity(*huge), MemoryLimitBytes());
  ExpectSays(
      LoadCluster(
          dir.Write("gpu.json",
                    R"({"device": {"name": "mine", "memory_bytes": 80000000000, "flops_per_s": {"bf16": 1e14}},
                                                "nodes": 1, "gpus_per_node": 2})"))
          .status(),
      {"not supported yet"});
  EXPECT_TRUE(absl::IsNotFound(LoadCluster(dir / "none.json").status()));
  EXPECT_FALSE(LoadCluster(dir.Write("bad.json", "{}")).ok());
  ExpectSays(
      LoadCluster(
          dir.Write("two.json",
                    R"({"device": {"name": "cpu", "memory_bytes": 1000}, "nodes": 2, "gpus_per_node": 2})"))
          .status(),
      {"not supported yet"});
}

TEST(LoadPlan, TextAndJson) {
  EXPECT_EQ(*LoadPlan("tp=2,pp=1,dp=4,mbs=2"), *LoadPlan(R"({"tp": 2, "pp": 1, "dp": 4, "micro_batch": 2})"));
  for (const char* bad : {"tp", "tp=two", "tp=2,tp=2", "ttp=2", "{", "tp=-1", "schedule=none"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(LoadPlan(bad).status())) << bad;
  }
}

TEST(CheckPlan, ReasonForWhatIsIllegal) {
  const auto model = LoadModel("gpt2-tiny", 0);
  const Workload workload{8, 64, *ParsePrecision("fp32")};
  const auto status = CheckPlan(*model, workload, 1 << 20, *LoadPlan("tp=8")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  ExpectSays(status, {"tp=8", "heads"});
  EXPECT_TRUE(CheckPlan(*model, workload, 2, *LoadPlan("tp=2")).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckPlan(*model, workload, 2, *LoadPlan("tp=4")).status()))
      << "more ranks than there are";
}

TEST(CheckPlan, OptionsOfLaterVersionsAreRefusedByName) {
  const auto model = LoadModel("gpt2-tiny", 0);
  const Workload workload{8, 64, *ParsePrecision("fp32")};
  for (const char* text : {"tp=2,sp=1", "dp=2,zero=1", "pp=2,schedule=zb-h1", "tp=2,tp_overlap=2",
                           "attention=unfused", "pp=2,vpp=2,mbs=1"}) {
    const auto status = CheckPlan(*model, workload, 8, *LoadPlan(text)).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << text << ": " << status;
    ExpectSays(status, {"not supported yet"});
  }
}

TEST(LoadPrecision, CpuTakesTwo) {
  EXPECT_EQ(*LoadPrecision(""), *ParsePrecision("fp32"));
  EXPECT_TRUE(LoadPrecision("fp64").ok());
  EXPECT_TRUE(absl::IsUnimplemented(LoadPrecision("bf16").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(LoadPrecision("fp23").status()));
  EXPECT_EQ(LoadPrecision("bf17").status().message().find("bf16"), std::string::npos) << "refused when given";
}

TEST(LoadDevice, Names) {
  EXPECT_EQ(*LoadDevice("", false), "cpu");
  EXPECT_EQ(*LoadDevice("auto", false), "cpu");
  EXPECT_EQ(*LoadDevice("dry", true), "dry");
  EXPECT_TRUE(absl::IsInvalidArgument(LoadDevice("dry", false).status()));
  EXPECT_TRUE(absl::IsUnimplemented(LoadDevice("cuda", true).status()));
  EXPECT_TRUE(absl::IsUnimplemented(LoadDevice("paced", true).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(LoadDevice("gpu", true).status()));
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
}  // namespace autocfg
