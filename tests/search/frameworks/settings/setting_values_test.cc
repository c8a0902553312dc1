// The values of settings: how they may be written, and what the framework takes where the file has none.
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/plan/plan_text.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"
#include "tests/search/frameworks/target_rules.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

TEST(PersonsFiles, JsonWithNumbersOfOtherForms) {
  ReadingOptions options;
  options.model = *ModelPreset("llama3-8b");
  const std::string begin = "{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": ";
  const std::string end =
      ", \"gradient_accumulation_steps\": 4, \"zero_optimization\": {\"stage\": 3, "
      "\"stage3_prefetch_bucket_size\": ";
  for (const char* prefetch : {"5e7", "\"auto\"", "0"}) {
    const auto run =
        ReadFrameworkFile(kDeepSpeed, "ds.json", absl::StrCat(begin, "2", end, prefetch, "}}"), options);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->plan.param_overlap, prefetch != std::string("0"));
  }
  // A batch that the other two sizes give may be chosen later.
  options.ranks = 8;
  const auto batch = ReadFrameworkFile(kDeepSpeed, "ds.json",
                                       "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": "
                                       "2, \"gradient_accumulation_steps\": 4}",
                                       options);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->workload.global_batch, 64);
  options.ranks = 0;
  const auto unknown = ReadFrameworkFile(kDeepSpeed, "ds.json", begin + "\"auto\"" + end + "0}}", options);
  EXPECT_EQ(
      unknown.status().message(),
      "ds.json:1: train_micro_batch_size_per_gpu is auto: the Trainer of Hugging Face fills it in; write "
      "its per_device_train_batch_size");
  const auto type = ReadFrameworkFile(
      kDeepSpeed, "ds.json", "{\"train_batch_size\": 8,\n \"bf16\": {\"enabled\": \"auto\"}}", options);
  EXPECT_EQ(
      type.status().message(),
      "ds.json:2: bf16.enabled is auto: the Trainer of Hugging Face fills it in; write true or false, as "
      "its bf16");
}

TEST(PersonsFiles, CommentsOfAFlagFileAreNoValues) {
  ReadingOptions options;
  options.ranks = 4;
  const auto run =
      ReadFrameworkFile(kMegatron, "run.args", FlagsWith("--bf16  # half the memory\n\n# --fp16"), options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(PrecisionText(run->workload.precision), "bf16");
}

TEST(PersonsFiles, UnevenStages) {
  ReadingOptions options;
  options.ranks = 2;
  for (const char* flags :
       {"--decoder-first-pipeline-num-layers 1", "--pipeline-model-parallel-layout Et|t*3L",
        "--pipeline-model-parallel-layout Et|(t)*3,L"}) {
    const auto run = ReadFrameworkFile(
        kMegatron, "run.args", FlagsWith(std::string("--bf16\n--pipeline-model-parallel-size 2\n") + flags),
        options);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(PlanText(run->plan), "tp=1,pp=2,dp=1,mbs=1,split=1+3");
  }
}

// As get_num_layers_to_build of the framework.
TEST(PersonsFiles, StagesOfOtherSizes) {
  ReadingOptions options;
  options.ranks = 4;
  const auto plan = [&](int layers, const std::string& flags) {
    std::string text = FlagsWith("--bf16\n--pipeline-model-parallel-size 4\n--global-batch-size 4\n" + flags);
    text.replace(text.find("--num-layers 4"), 14, absl::StrCat("--num-layers ", layers));
    const auto run = ReadFrameworkFile(kMegatron, "run.args", text, options);
    return run.ok() ? PlanText(run->plan) : std::string(run.status().message());
  };
  const std::string first = "--decoder-first-pipeline-num-layers ",
                    last = "--decoder-last-pipeline-num-layers ",
                    embedding = "--account-for-embedding-in-pipeline-split",
                    loss = "--account-for-loss-in-pipeline-split",
                    chunks = "\n--num-virtual-stages-per-pipeline-rank 2",
                    chunk = "\n--num-layers-per-virtual-pipeline-stage ";
  const std::string begin = "tp=1,pp=4,dp=1,mbs=1,split=", interleaved = "tp=1,pp=4,dp=1,mbs=1,vpp=2,split=";
  EXPECT_EQ(plan(14, embedding + "\n" + loss), begin + "3+4+4+3");
  EXPECT_EQ(plan(15, embedding), begin + "3+4+4+4");
  EXPECT_EQ(plan(15, loss), begin + "4+4+4+3");
  EXPECT_EQ(plan(14, first + "3\n" + last + "3"), begin + "3+4+4+3");
  EXPECT_EQ(plan(13, last + "1"), begin + "4+4+4+1");
  EXPECT_EQ(plan(14, embedding + "\n" + loss + chunks), interleaved + "1+2+2+2+2+2+2+1,p2p_overlap=1");
  EXPECT_EQ(plan(14, embedding + "\n" + loss + chunk + "2"), interleaved + "1+2+2+2+2+2+2+1,p2p_overlap=1");
  EXPECT_EQ(plan(10, first + "4" + chunks + "\n" + last + "2"),
            interleaved + "2+1+1+1+2+1+1+1,p2p_overlap=1");
  EXPECT_THAT(plan(14, loss), HasSubstr("leaves 15 layers for 4 stages; change one of them"));
  EXPECT_THAT(plan(15, first + "3" + chunks),
              HasSubstr("makes a rank of 3 layers, which do not divide by its 2"));
  EXPECT_THAT(plan(15, first + "3\n" + loss), HasSubstr("contradicts --account-for-loss-in-pipeline-split"));
  EXPECT_THAT(plan(14, first + "2" + chunk + "2"), HasSubstr("--num-virtual-stages-per-pipeline-rank"));
}

TEST(PersonsFiles, FusedAttentionTakesSixteenBits) {
  ReadingOptions options;
  options.ranks = 2;
  const auto read = [&](const std::string& flags) {
    return ReadFrameworkFile(kMegatron, "run.args", FlagsWith(flags), options);
  };
  for (const char* chosen : {"", "--attention-backend auto", "--attention-backend unfused"}) {
    const auto run = read(chosen);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(IsUnfused(run->plan)) << chosen;
  }
  EXPECT_EQ(read("--attention-backend flash").status().message(),
            "run.args:8: --attention-backend is flash, which takes 16 bits, and the run is in fp32; "
            "give unfused");
  for (const char* halves : {"--bf16", "--bf16\n--attention-backend flash", "--fp16"}) {
    const auto run = read(halves);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_FALSE(IsUnfused(run->plan)) << halves;
  }
}

// What a file lacks is what the framework's release takes, which the rules hold: saying it changes nothing.
TEST(PersonsFiles, WhatAFileLacksIsTheFrameworksDefault) {
  for (const std::string_view framework : {kMegatron, kNemo, kDeepSpeed, kTorchtitan}) {
    ReadingOptions options;
    options.ranks = 8;
    if (framework == kDeepSpeed) options.model = *ModelPreset("llama3-8b");
    const nlohmann::json rules = test::RulesOf(std::string(framework));
    int defaults = 0;
    for (const auto& [name, rule] : rules["options"].items()) {
      if (!rule.contains("default") || name.starts_with("model.name") || name == "model.flavor") continue;
      ++defaults;
      SCOPED_TRACE(absl::StrCat(std::string(framework), " ", name));
      // A setting that says nothing, in the same section: a size of 1 splits nothing.
      const std::size_t dot = name.rfind('.');
      const std::string idle = dot == std::string::npos ? (name.starts_with("--") ? "--seed" : "seed")
                                                        : name.substr(0, dot) + ".idle_size";
      const auto without = ReadFrameworkFile(framework, "f", SmallFile(framework, idle, 1), options);
      const auto with =
          ReadFrameworkFile(framework, "f", SmallFile(framework, name, rule["default"]), options);
      ASSERT_TRUE(without.ok()) << without.status();
      ASSERT_TRUE(with.ok()) << with.status();
      EXPECT_EQ(PlanText(with->plan), PlanText(without->plan));
      EXPECT_EQ(with->workload, without->workload);
      EXPECT_EQ(with->model, without->model);
    }
    EXPECT_GE(defaults, 7) << framework;
  }
}

}  // namespace
}  // namespace autocfg
