// Files as people write them (files/): the run that each form is read as, and the files that a script names.
#include "tests/search/frameworks/persons_files.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/batch_script.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/plan/plan_text.h"
#include "search/text/model_json.h"

namespace autocfg {
namespace {

using test::FileNamed;
using test::ReadFile;
using testing::Contains;
using testing::HasSubstr;

TEST(PersonsFiles, AScriptWithArrays) {
  const FrameworkRun run = ReadFile(kMegatron, "arrays.txt");
  EXPECT_EQ(run.ranks, 32);
  EXPECT_EQ(run.model.name, "llama3-8b");
  EXPECT_EQ(run.model.vocab, 128256);
  EXPECT_EQ(run.workload.global_batch, 64);
  EXPECT_EQ(PlanText(run.plan), "tp=4,pp=2,dp=4,mbs=1,sp=1,zero=1,grad_overlap=1");
  EXPECT_THAT(run.notes,
              Contains(HasSubstr("settings that say nothing of model, batch or plan are left out")));
}

TEST(PersonsFiles, OneCommandWithOptionsInAText) {
  const FrameworkRun run = ReadFile(kMegatron, "one_command.txt");
  EXPECT_EQ(run.ranks, 16);
  EXPECT_EQ(run.model.vocab, 50257);
  EXPECT_EQ(run.model.ffn_hidden, 8192);
  EXPECT_EQ(PlanText(run.plan),
            "tp=2,pp=1,dp=8,mbs=4,recompute=full:6,zero=1,grad_overlap=1,param_overlap=1");
}

TEST(PersonsFiles, ASlurmScriptWithANestedShell) {
  const FrameworkRun run = ReadFile(kMegatron, "slurm.txt");
  EXPECT_EQ(run.ranks, 128);
  EXPECT_EQ(run.model.name, "llama2-70b");
  EXPECT_EQ(PlanText(run.plan),
            "tp=8,pp=4,dp=4,mbs=1,vpp=4,recompute=selective,attention=unfused,sp=1,zero=1,p2p_overlap=1");
}

TEST(PersonsFiles, YamlWithInterpolations) {
  const FrameworkRun run = ReadFile(kNemo, "config.yaml");
  EXPECT_EQ(run.ranks, 64);
  EXPECT_EQ(run.workload.seq_len, 4096);
  EXPECT_EQ(run.model.max_seq_len, 4096);
  EXPECT_EQ(PlanText(run.plan), "tp=4,pp=4,dp=4,mbs=1,vpp=5,sp=1,zero=1,grad_overlap=1,p2p_overlap=1");
}

TEST(PersonsFiles, JsonThatNamesNoModel) {
  ReadingOptions options;
  options.model = *ModelPreset("llama3-8b");
  const FrameworkRun run = ReadFile(kDeepSpeed, "zero3.json", options);
  EXPECT_EQ(run.ranks, 16);
  EXPECT_EQ(PlanText(run.plan), "tp=1,pp=1,dp=16,mbs=2,zero=3,grad_overlap=1,param_overlap=1");
  const auto without = ReadFrameworkFile(kDeepSpeed, "zero3.json", FileNamed("zero3.json"));
  EXPECT_EQ(without.status().message(), "zero3.json: the format says nothing of the model; give --model");
}

TEST(PersonsFiles, TomlWithTheRanksThatAreLeft) {
  ReadingOptions options;
  options.ranks = 16;
  const FrameworkRun run = ReadFile(kTorchtitan, "llama3.toml", options);
  EXPECT_EQ(run.model.name, "llama3-8b");
  EXPECT_EQ(run.workload.global_batch, 16);
  EXPECT_EQ(PlanText(run.plan),
            "tp=2,pp=1,dp=8,mbs=2,recompute=full,sp=1,zero=3,grad_overlap=1,param_overlap=1");
  const auto without = ReadFrameworkFile(kTorchtitan, "llama3.toml", FileNamed("llama3.toml"));
  EXPECT_THAT(without.status().message(), HasSubstr("give --ranks or --cluster"));
}

TEST(PersonsFiles, FilesThatAScriptNames) {
  const auto named = FilesNamedBy(
      "#!/bin/bash\n# old.toml\ntorchrun x.py $(grep -v '^#' runs/a.args) --c=${DIR}/b.toml \\\n"
      "  --d \"$HOME/c.json\" --e $X/c.json .json a.args\n  --f /etc/d.yaml --yaml-cfg");
  std::vector<std::string> shown;
  for (const NamedFile& file : named) shown.push_back(absl::StrCat(file.path, ":", file.line));
  EXPECT_THAT(shown,
              testing::ElementsAre("runs/a.args:3", "b.toml:3", "c.json:4", "a.args:4", "/etc/d.yaml:5"));
  EXPECT_TRUE(FilesNamedBy("").empty());
}

TEST(PersonsFiles, FilesOfOtherProgramsAreNamed) {
  EXPECT_EQ(OtherFormOf("finetuning_type: full\nmodel_name_or_path: a/b\n"), "LLaMA-Factory");
  for (const char* name : {"config.yaml", "llama3.toml", "zero3.json", "arrays.txt", "slurm.txt"})
    EXPECT_EQ(OtherFormOf(FileNamed(name)), "") << name;
}

}  // namespace
}  // namespace autocfg
