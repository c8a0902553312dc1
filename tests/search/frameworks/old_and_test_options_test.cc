// Options of old releases of Megatron-LM, of its functional tests, and activations that it has by flags.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/plan/plan_text.h"
#include "tests/search/frameworks/small_files.h"

namespace autocfg {
namespace {

using testing::Contains;
using testing::HasSubstr;

absl::StatusOr<FrameworkRun> ReadOldFlags(const std::string& more, std::int64_t ranks = 8) {
  ReadingOptions options;
  options.ranks = ranks;
  return ReadFrameworkFile(kMegatron, "run.args", FlagsWith(more), options);
}
std::string PlanOrError(const absl::StatusOr<FrameworkRun>& run) {
  return run.ok() ? PlanText(run->plan) : std::string(run.status().message());
}

TEST(OldOptions, RecomputationByItsOldNames) {
  const std::string full = "tp=1,pp=1,dp=8,mbs=1,recompute=full", unfused = ",attention=unfused";
  EXPECT_EQ(PlanOrError(ReadOldFlags("--checkpoint-activations")), full + unfused);
  EXPECT_EQ(PlanOrError(ReadOldFlags("--activations-checkpoint-method uniform")), full + unfused);
  EXPECT_EQ(PlanOrError(ReadOldFlags("--activations-checkpoint-method block\n"
                                     "--activations-checkpoint-num-layers 2")),
            full + ":2" + unfused);
  EXPECT_EQ(PlanOrError(ReadOldFlags("--checkpoint-activations\n--recompute-granularity full\n"
                                     "--recompute-method uniform")),
            full + unfused);
  EXPECT_THAT(ReadOldFlags("--checkpoint-activations")->notes,
              Contains("run.args:8: --checkpoint-activations is an old name: read as recompute=full"));
  EXPECT_THAT(
      PlanOrError(ReadOldFlags("--checkpoint-activations\n--recompute-granularity selective")),
      HasSubstr("run.args:9: --recompute-granularity contradicts --checkpoint-activations of line 8"));
  const std::string split = "--checkpoint-activations\n--distribute-checkpointed-activations\n";
  EXPECT_EQ(PlanOrError(ReadOldFlags(split)), full + unfused);  // one tensor rank
  EXPECT_THAT(PlanOrError(ReadOldFlags(split + "--tensor-model-parallel-size 2")),
              HasSubstr("inputs that are split over tensor ranks are not modelled"));
}

TEST(OldOptions, Activations) {
  const auto activation = [](const std::string& more) {
    const auto run = ReadOldFlags(more);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->model.activation : Activation::kRelu;
  };
  EXPECT_EQ(activation("--squared-relu"), Activation::kSquaredRelu);
  EXPECT_EQ(activation("--openai-gelu\n--disable-bias-linear"), Activation::kGelu);
  EXPECT_EQ(activation("--glu-activation geglu"), Activation::kGeGlu);
  EXPECT_EQ(PlanOrError(ReadOldFlags("--swiglu\n--squared-relu")),
            "run.args:9: --squared-relu contradicts --swiglu of line 8; leave one of them");
  EXPECT_THAT(PlanOrError(ReadOldFlags("--glu-activation reglu")), HasSubstr("swiglu and geglu can be read"));
}

constexpr char kTestFile[] = R"(ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
TEST_TYPE: regular
MODEL_ARGS:
  --num-layers: 12
  --hidden-size: 512
  --num-attention-heads: 8
  --seq-length: 1024
  --max-position-embeddings: 1024
  --micro-batch-size: 4
  --global-batch-size: 32
  --vocab-file: ${DATA_PATH}/vocab.json
  --tensor-model-parallel-size: 2
  --pipeline-model-parallel-size: 2
  --sequence-parallel: true
  --use-distributed-optimizer: false
  --num-experts: null
  --prompts: 'text: with a colon'
  --bf16: true
)";

TEST(TestArguments, AreOptions) {
  ReadingOptions options;
  options.ranks = 8;
  EXPECT_EQ(FrameworkOf(kTestFile), kMegatron);
  const auto run = ReadFrameworkFile(kMegatron, "model_config.yaml", kTestFile, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(PlanText(run->plan), "tp=2,pp=2,dp=2,mbs=4,sp=1");
  EXPECT_EQ(run->model.vocab, 50257);
  EXPECT_EQ(BaseName(run->workload.precision), "bf16");
  const auto says = [&](const std::string& more) {
    return std::string(
        ReadFrameworkFile(kMegatron, "t.yaml", absl::StrCat(kTestFile, more), options).status().message());
  };
  EXPECT_THAT(says("  --context-parallel-size: 2\n"), HasSubstr("t.yaml:20: --context-parallel-size is 2"));
  EXPECT_THAT(says("  --bf16: false\n"), HasSubstr("--bf16 is given twice"));
  EXPECT_EQ(says("  --recompute-granularity: selective\n  --recompute-modules: '[core_attn mlp]'\n"), "");
  EXPECT_THAT(says("  --micro-batch-sise: 2\n"), HasSubstr("did you mean"));
}

TEST(SecondCommands, OneThatTrainsNoTextDoesNotCount) {
  const std::string options =
      " --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
      "--micro-batch-size 1";
  const auto says = [&](const std::string& first, const std::string& second) {
    const std::string start = "torchrun --nproc-per-node 8 ";
    return PlanOrError(ReadFrameworkFile(
        kMegatron, "a.sh", absl::StrCat(start, first, options, "\n", start, second, options, "\n")));
  };
  const std::string plan = "tp=1,pp=1,dp=8,mbs=1,attention=unfused";
  EXPECT_EQ(says("pretrain_bert.py", "pretrain_gpt.py"), plan);
  EXPECT_EQ(says("pretrain_gpt.py", "pretrain_gpt.py"), plan);  // a command that stands twice
  EXPECT_THAT(says("examples/multimodal/train.py", "examples/multimodal/train.py --bf16"),
              HasSubstr("a.sh:1: train.py trains no decoder of text"));
  EXPECT_THAT(says("pretrain_gpt.py", "pretrain_gpt.py --bf16"), HasSubstr("a second command trains"));
}

TEST(SourcedOptions, AreReadFromTheVariablesOfAScriptThatTrainsNothing) {
  const std::string script =
      "#!/bin/bash\nLAYERS=${LAYERS:-4}\nHEADS=8\nMODEL=\" --num-layers $LAYERS --hidden-size 64 "
      "--num-attention-heads $HEADS --seq-length 64 "
      "\\\n  --max-position-embeddings 64\"\nMORE=(--bf16 --vocab-size 1000)\nALL=\"$MODEL\"\n";
  ReadingOptions options;
  options.ranks = 8;
  EXPECT_THAT(PlanOrError(ReadFrameworkFile(kMegatron, "a.sh", script, options)),
              HasSubstr("--micro-batch-size is missing; add it, or give --plan mbs=N"));
  options.plan = {{"mbs", "2"}};
  const auto run = ReadFrameworkFile(kMegatron, "a.sh", script, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(PlanText(run->plan), "tp=1,pp=1,dp=8,mbs=2");
  EXPECT_EQ(run->model.layers, 4);
  EXPECT_EQ(run->model.heads, 8);
  EXPECT_EQ(BaseName(run->workload.precision), "bf16");
  EXPECT_THAT(run->notes, Contains(HasSubstr("a.sh: no command of it trains")));
}

TEST(SaidRanks, CountInPlaceOfThoseThatAScriptStarts) {
  const std::string script =
      "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --tensor-model-parallel-size 4 "
      "--pipeline-model-parallel-size 4\n";
  EXPECT_THAT(PlanOrError(ReadFrameworkFile(kMegatron, "a.sh", script)),
              HasSubstr("or give other ranks by --ranks"));
  ReadingOptions options;
  options.ranks = 32;
  options.ranks_count = true;
  const auto run = ReadFrameworkFile(kMegatron, "a.sh", script, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->ranks, 32);
  EXPECT_EQ(run->ranks_per_node, 8);
  EXPECT_THAT(run->notes, Contains("the file starts 8 ranks: read with the 32 of --ranks"));
}

}  // namespace
}  // namespace autocfg
