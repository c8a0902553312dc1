// What is said where a script or a file is launched: arguments, variables, overrides, the Trainer's options.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/changed_lines.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/settings/settings_forms.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/plan/plan_text.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

ReadingOptions Launched(const std::vector<std::string>& arguments) {
  ReadingOptions options;
  for (const std::string& argument : arguments) options.launch.arguments.push_back({argument});
  return options;
}

std::string OneLine(const std::string& flags) { return absl::StrReplaceAll(flags, {{"\n", " "}}); }

TEST(Launched, ArgumentsOfAScript) {
  const std::string launch = "torchrun --nproc-per-node 8 pretrain_gpt.py " + OneLine(FlagsWith("--bf16"));
  const auto plan = [](const std::string& script, const std::vector<std::string>& arguments) {
    const auto run = ReadFrameworkFile(kMegatron, "a.sh", script + "\n", Launched(arguments));
    return run.ok() ? PlanText(run->plan) : std::string(run.status().message());
  };
  const std::string tp = " --tensor-model-parallel-size ";
  EXPECT_EQ(plan(launch + " \"$@\"", {"--tensor-model-parallel-size", "2"}), "tp=2,pp=1,dp=4,mbs=1");
  EXPECT_EQ(plan(launch + " ${@}", {"--tensor-model-parallel-size", "2"}), "tp=2,pp=1,dp=4,mbs=1");
  EXPECT_EQ(plan("TP=$1\n" + launch + tp + "$TP", {"4"}), "tp=4,pp=1,dp=2,mbs=1");
  EXPECT_EQ(plan("TP=${2:-2}\n" + launch + tp + "$TP", {"4"}), "tp=2,pp=1,dp=4,mbs=1");
  EXPECT_EQ(plan("N=$1\nshift\n" + launch + " $*", {"4", "--sequence-parallel"}), "tp=1,pp=1,dp=8,mbs=1");
  EXPECT_EQ(plan("shift 2\n" + launch + tp + "$1", {"a", "b", "8"}), "tp=8,pp=1,dp=1,mbs=1");
  EXPECT_EQ(plan("if [ $# -eq 2 ]; then T=2; else T=4; fi\n" + launch + tp + "$T", {"a", "b"}),
            "tp=2,pp=1,dp=4,mbs=1");
  EXPECT_THAT(plan(launch + tp + "$1", {}),
              HasSubstr("$1 is an argument of the script; give the script's arguments behind --"));
  EXPECT_EQ(
      plan(launch + " $@", {"--tensor-model-parallel-size", "3"}),
      "a.sh as launched: --tensor-model-parallel-size does not fit: 8 ranks do not divide by tp=3 x pp=1; "
      "change one of them, or give other ranks by --ranks");
}

TEST(Launched, VariablesOfAScript) {
  const std::string script =
      "TP=${TP:-1}\ntorchrun --nnodes $NNODES --nproc-per-node 8 pretrain_gpt.py " +
      OneLine(FlagsWith("--bf16 --global-batch-size 16 --tensor-model-parallel-size $TP")) + "\n";
  ReadingOptions options;
  options.launch.variables = {{"NNODES", "2"}, {"TP", "4"}};
  const auto run = ReadFrameworkFile(kMegatron, "a.sh", script, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(PlanText(run->plan), "tp=4,pp=1,dp=4,mbs=1");
  // Its option is changed where it stands.
  ParallelPlan plan = run->plan;
  plan.tp = 2;
  plan.dp = 8;
  const auto changed = ChangePlan(*run, plan, options);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, HasSubstr("--tensor-model-parallel-size 2"));
}

TEST(Launched, OverridesOfAFile) {
  ReadingOptions nemo =
      Launched({"trainer.num_nodes=2", "model.hidden_size=512", "++model.micro_batch_size=2"});
  const auto file = ReadFrameworkFile(
      kNemo, "a.yaml", SmallFile(kNemo, "model.ffn_hidden_size", "${multiply:4, ${.hidden_size}}"), nemo);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->ranks, 16);
  EXPECT_EQ(file->model.ffn_hidden, 2048);
  EXPECT_EQ(file->plan.micro_batch, 2);
  ParallelPlan other = file->plan;
  other.micro_batch = 1;
  EXPECT_FALSE(ChangePlan(*file, other, nemo).ok());
  ReadingOptions titan = Launched({"--training.local-batch-size", "4", "--training.seq_len=1024", "--x"});
  titan.ranks = 8;
  const auto toml =
      ReadFrameworkFile(kTorchtitan, "a.toml", SmallFile(kTorchtitan, "training.seed", 1), titan);
  ASSERT_TRUE(toml.ok()) << toml.status();
  EXPECT_EQ(toml->workload.seq_len, 1024);
  EXPECT_EQ(toml->plan.micro_batch, 4);
  const auto flags = ReadFrameworkFile(kMegatron, "a.args", FlagsWith("--bf16"), [] {
    ReadingOptions options = Launched({"--tensor-model-parallel-size", "2"});
    options.ranks = 4;
    return options;
  }());
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->plan.tp, 2);
}

constexpr char kAutos[] =
    R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
        "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}})";

TEST(Launched, TheTrainersOptionsFillInAutos) {
  const auto read = [](const std::vector<std::string>& arguments, const char* mbs = nullptr) {
    ReadingOptions options = Launched(arguments);
    options.model = *ModelPreset("llama3-8b");
    options.ranks = 8;
    if (mbs != nullptr) options.plan["mbs"] = mbs;
    return ReadFrameworkFile(kDeepSpeed, "ds.json", kAutos, options);
  };
  const auto run = read({"--per_device_train_batch_size", "2", "--gradient-accumulation-steps=4", "--bf16",
                         "True", "--gradient_checkpointing", "--fp16", "False"});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->workload.global_batch, 64);
  EXPECT_EQ(BaseName(run->workload.precision), "bf16");
  EXPECT_EQ(PlanText(run->plan), "tp=1,pp=1,dp=8,mbs=2,recompute=full,zero=2");
  const auto one = read({"--per_device_train_batch_size", "2", "--bf16"});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->workload.global_batch, 16) << "without accumulation";
  EXPECT_EQ(RecomputeText(one->plan), "none");
  EXPECT_THAT(std::string(read({"--bf16"}).status().message()), HasSubstr("fills it in"));
  EXPECT_EQ(read({"--per_device_train_batch_size", "two"}).status().message(),
            "ds.json as launched: train_micro_batch_size_per_gpu is 'two'; give a whole number from 1 to "
            "2147483647");
}

TEST(Launched, TheCommandOfAScriptThatNamesTheFile) {
  const std::string script =
      "#SBATCH --nodes=2\nexport DS=ds.json BS=4\necho ds.json\n"
      "deepspeed --num_nodes 2 --num_gpus 8 train.py --deepspeed conf/$DS --per_device_train_batch_size $BS "
      "--learning_rate $LR\n";
  const auto command = CommandThatNames("ds.json", "a.sh", script, {});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->ranks, 16);
  ASSERT_EQ(command->words.size(), 6u);
  EXPECT_EQ(command->words[3].text, "4");
  EXPECT_EQ(command->words[5].unknown, "$LR is not set in the file");
  EXPECT_TRUE(CommandThatNames("other.json", "a.sh", script, {})->words.empty());
}

}  // namespace
}  // namespace autocfg
