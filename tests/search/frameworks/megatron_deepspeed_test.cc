// Scripts of Megatron-DeepSpeed: the flags say model, batch, tp and pp, the JSON file that the script writes
// or names says ZeRO and the types.
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/changed_lines.h"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/plan/plan_text.h"

namespace autocfg {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr char kForkStart[] = "GBS=32\nMBS=2\nZERO_STAGE=1\nTP=2\nPP=2\nconfig=\"./ds.$JOB.json\"\n";
constexpr char kForkDocument[] =
    "cat <<EOT > $config\n{\n  \"train_micro_batch_size_per_gpu\": $MBS,\n  \"train_batch_size\": $GBS,\n"
    "  \"zero_optimization\": {\"stage\": $ZERO_STAGE},\n  \"fp16\": {\"enabled\": true}\n}\nEOT\n";

std::string ForkCommand(const std::string& more = "") {
  return absl::StrCat(
      "torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --num-layers 8 --hidden-size 256 "
      "--num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 --vocab-size 1000 "
      "--micro-batch-size $MBS --global-batch-size $GBS --tensor-model-parallel-size $TP "
      "--pipeline-model-parallel-size $PP --zero-stage $ZERO_STAGE --deepspeed --fp16 "
      "--deepspeed_config $config ",
      more, "\n");
}

absl::StatusOr<FrameworkRun> ReadFork(const std::string& script, const ReadingOptions& options = {}) {
  return ReadFrameworkFile(kMegatron, "a.sh", script, options);
}
std::string ForkPlanOf(const absl::StatusOr<FrameworkRun>& run) {
  return run.ok() ? PlanText(run->plan) : std::string(run.status().message());
}

ReadingOptions WithFileBeside(const std::string& name, const std::string& text) {
  ReadingOptions options;
  options.launch.beside = [name, text](const std::string& path) {
    return path.substr(path.rfind('/') + 1) == name ? std::optional(text) : std::nullopt;
  };
  return options;
}

TEST(MegatronDeepSpeed, ReadsTheFileThatTheScriptWrites) {
  const auto run = ReadFork(absl::StrCat(kForkStart, kForkDocument, ForkCommand("--checkpoint-activations")));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->framework, kMegatronDeepSpeed);
  EXPECT_EQ(run->engine, kDeepSpeed);
  EXPECT_EQ(run->ranks, 16);
  EXPECT_EQ(run->workload.global_batch, 32);
  EXPECT_EQ(PlanText(run->plan), "tp=2,pp=2,dp=4,mbs=2,recompute=full,attention=unfused,zero=1");
  EXPECT_EQ(BaseName(run->workload.precision), "fp16");
}

TEST(MegatronDeepSpeed, ReadsATemplateThatSedFillsIn) {
  const std::string sed =
      "sed \"s/GLOBAL/${GBS}/\" template.json | sed \"s/STAGE/${ZERO_STAGE}/\" | sed 's/MICRO/2/' > "
      "$config\n";
  const std::string text =
      R"({"train_batch_size": GLOBAL, "train_micro_batch_size_per_gpu": MICRO,
          "zero_optimization": {"stage": STAGE}, "fp16": {"enabled": true}})";
  const ReadingOptions options = WithFileBeside("template.json", text);
  const auto run = ReadFork(absl::StrCat(kForkStart, sed, ForkCommand()), options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->plan.zero_stage, 1);
  EXPECT_EQ(run->plan.recompute, Recompute::kNone);
  // A change of the plan changes the variables, which the file follows.
  ParallelPlan plan = run->plan;
  plan.micro_batch = 4;
  plan.zero_stage = 0;
  const auto changed = ChangePlan(*run, plan, options);
  EXPECT_FALSE(changed.ok());  // MICRO is a number in the script
  const auto with_variable = ReadFork(absl::StrCat(kForkStart, kForkDocument, ForkCommand()));
  const auto both = ChangePlan(*with_variable, plan, {});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(both->text, HasSubstr("MBS=4\nZERO_STAGE=0\n"));
}

TEST(MegatronDeepSpeed, ReadsAFileBesideTheScript) {
  const ReadingOptions options = WithFileBeside(
      "ds.json", R"({"train_batch_size": 32, "zero_optimization": {"stage": 1}, "fp16": {"enabled": true}})");
  const std::string start = absl::StrReplaceAll(kForkStart, {{"./ds.$JOB.json", "$DIR/ds.json"}});
  EXPECT_EQ(ForkPlanOf(ReadFork(start + ForkCommand(), options)),
            "tp=2,pp=2,dp=4,mbs=2,attention=unfused,zero=1");
  const ReadingOptions other = WithFileBeside(
      "ds.json",
      "{\"train_batch_size\": 64,\n\"zero_optimization\":{\"stage\": 1},\"fp16\":{\"enabled\":true}}");
  EXPECT_EQ(ForkPlanOf(ReadFork(start + ForkCommand(), other)),
            "/ds.json:1: train_batch_size is 64, and --global-batch-size 32; change one of them");
}

TEST(MegatronDeepSpeed, WithoutTheFileTheFlagSaysTheStage) {
  const auto run = ReadFork(kForkStart + ForkCommand());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->plan.zero_stage, 1);
  EXPECT_THAT(run->notes, Contains(HasSubstr("ZeRO is that of --zero-stage")));
  const std::string without = absl::StrReplaceAll(ForkCommand(), {{"--zero-stage $ZERO_STAGE", ""}});
  EXPECT_THAT(
      ForkPlanOf(ReadFork(kForkStart + without)),
      HasSubstr("is not beside the script, nor does the script write it by cat or sed; put it beside"));
}

TEST(MegatronDeepSpeed, AFileOfTwoBranchesIsNotKnown) {
  const std::string second =
      absl::StrCat("if [ -f x ]; then\n", absl::StrReplaceAll(kForkDocument, {{"true", "false"}}), "fi\n");
  EXPECT_THAT(
      ForkPlanOf(ReadFork(absl::StrCat(kForkStart, kForkDocument, second,
                                       absl::StrReplaceAll(ForkCommand(), {{"--zero-stage 1", ""}})))),
      testing::StartsWith("tp=2"));
  const std::string without = absl::StrReplaceAll(ForkCommand(), {{"--zero-stage $ZERO_STAGE", ""}});
  EXPECT_THAT(ForkPlanOf(ReadFork(absl::StrCat(kForkStart, kForkDocument, second, without))),
              HasSubstr("cannot be read"));
}

TEST(MegatronDeepSpeed, StatesOfItsOptimizerForBf16AreSharded) {
  const std::string script = absl::StrReplaceAll(absl::StrCat(kForkStart, kForkDocument, ForkCommand()),
                                                 {{"fp16", "bf16"}, {"ZERO_STAGE=1", "ZERO_STAGE=0"}});
  const auto run = ReadFork(script);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->plan.zero_stage, 1);
  EXPECT_EQ(run->workload.precision.gradients, DType::kF32);
  EXPECT_THAT(run->notes, Contains(HasSubstr("shards its states too: read as zero=1")));
}

TEST(MegatronDeepSpeed, RefusesByName) {
  const auto says = [](const std::string& more, const std::string& start = kForkStart) {
    return ForkPlanOf(ReadFork(absl::StrCat(start, kForkDocument, ForkCommand(more))));
  };
  EXPECT_THAT(says("--no-pipeline-parallel"), HasSubstr("--no-pipeline-parallel needs --pipeline-model-"));
  EXPECT_THAT(says("--no-pipeline-parallel", absl::StrReplaceAll(kForkStart, {{"PP=2", "PP=1"}})),
              testing::StartsWith("tp=2,pp=1,dp=8"));
  EXPECT_THAT(says("--partition-activations"), HasSubstr("--partition-activations cannot be read"));
  EXPECT_THAT(says("--cpu-optimizer"), HasSubstr("states in host memory are not modelled"));
  EXPECT_THAT(says("--ds-sequence-parallel-size 2"), HasSubstr("sequence parallelism of its own kind"));
  EXPECT_THAT(says("--ds-sequence-parallel-size 1"), testing::StartsWith("tp=2"));
  EXPECT_THAT(says("--zero-stage 0"), HasSubstr("--zero-stage is 0, and the JSON of DeepSpeed says stage 1"));
  EXPECT_THAT(says("--kd"), HasSubstr("distillation from a teacher is not modelled"));
  EXPECT_THAT(says("--random-ltd"), HasSubstr("layers that leave tokens out are not modelled"));
}

TEST(MegatronDeepSpeed, StagesCountTheEndsAsLayersIfThePatternNamesThem) {
  const auto plan = [](const std::string& layers) {
    return ForkPlanOf(
        ReadFork(absl::StrCat(kForkStart, kForkDocument,
                              ForkCommand(absl::StrCat("--pp-partition-method 'type:transformer|embedding' "
                                                       "--num-layers ",
                                                       layers)))));
  };
  EXPECT_THAT(plan("6"), testing::StartsWith("tp=2,pp=2,dp=4,mbs=2"));
  EXPECT_THAT(plan("7"), HasSubstr("--pp-partition-method is 'type:transformer|embedding'; of 7 layers"));
}

TEST(MegatronDeepSpeed, OptionsOfItsModels) {
  const auto fork = ReadFork(
      absl::StrReplaceAll(absl::StrCat(kForkStart, kForkDocument,
                                       ForkCommand("--position-embedding-type alibi --embed-layernorm "
                                                   "--pad-vocab-size-to 1024 --swiglu --num-key-value-heads "
                                                   "4 --normalization rmsnorm --use-flash-attn-v2")),
                          {{"--vocab-size 1000", "--tokenizer-type PretrainedFromHF"}}));
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->model.position, Position::kAlibi);
  EXPECT_TRUE(fork->model.embedding_norm);
  EXPECT_EQ(fork->model.vocab, 1024);
  EXPECT_EQ(fork->model.kv_heads, 4);
  EXPECT_EQ(fork->model.norm, Norm::kRmsNorm);
  EXPECT_EQ(fork->plan.attention, Attention::kFused);
}

// Files that double, and a rule that makes a text longer, end at kMostFileText: their text is not known.
TEST(MegatronDeepSpeed, FilesThatGrowWithoutEndAreNotKnown) {
  std::string doubled = "echo aaaaaaaa > f0\n", longer = doubled;
  for (int i = 0; i < 60; ++i) {
    absl::StrAppend(&doubled, "cat f", i, " f", i, " > f", i + 1, "\n");
    absl::StrAppend(&longer, "sed 's/a/aaaaaaaa/g' f", i, " > f", i + 1, "\n");
  }
  for (const std::string& script : {doubled, longer}) {
    const auto run = ReadFork(absl::StrCat(kForkStart, "config=f60\n", script, ForkCommand()));
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_THAT(run->notes,
                Contains(HasSubstr("f60 is not beside the script, nor does the script write it")));
  }
}

}  // namespace
}  // namespace autocfg
