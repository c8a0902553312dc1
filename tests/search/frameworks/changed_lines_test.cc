// The lines of a file that change for another plan, and what else is to be done.
#include "search/frameworks/changed_lines.h"

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "search/frameworks/deepspeed/deepspeed.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/frameworks/nemo/nemo.h"
#include "search/frameworks/torchtitan/torchtitan.h"
#include "search/plan/plan_options.h"
#include "search/plan/plan_text.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/persons_files.h"

namespace autocfg {
namespace {

using test::ReadFile;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// A variable's line changes, not the one that uses it; what is new stands among the options.
TEST(PersonsFiles, ChangedLinesOfAScript) {
  const FrameworkRun run = ReadFile(kMegatron, "arrays.txt");
  const auto changed =
      ChangePlan(run, *ParsePlanText("tp=2,pp=2,dp=8,mbs=1,recompute=full,sp=1,zero=1,grad_overlap=1"), {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, AllOf(HasSubstr("\nTP=2\n"), HasSubstr("    --recompute-granularity full\n"),
                                   HasSubstr("    --tensor-model-parallel-size ${TP}\n")));
  bool said = false;
  for (const ChangedLine& line : changed->lines) {
    if (line.before != "TP=4") continue;
    said = true;
    EXPECT_EQ(line.line, 12);
    EXPECT_EQ(line.after, std::vector<std::string>{"TP=2"});
  }
  EXPECT_TRUE(said);
}

// A flag of the plan goes to the array of such, not to the last one that has any flag.
TEST(PersonsFiles, NewFlagsStandInTheArrayOfTheirKind) {
  const std::string text =
      "#!/bin/bash\nPARALLEL=(\n    --tensor-model-parallel-size 4\n    --pipeline-model-parallel-size 1\n)\n"
      "TRAINING=(\n    --num-layers 4\n    --hidden-size 64\n    --num-attention-heads 4\n    --seq-length "
      "32\n"
      "    --max-position-embeddings 32\n    --micro-batch-size 1\n    --global-batch-size 8\n"
      "    --tokenizer-type NullTokenizer\n    --vocab-size 255\n    --bf16\n)\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py ${PARALLEL[@]} ${TRAINING[@]}\n";
  const auto run = ReadFrameworkFile(kMegatron, "train.sh", text, {});
  ASSERT_TRUE(run.ok()) << run.status();
  const auto changed = ChangePlan(*run, *ParsePlanText("tp=4,dp=2,mbs=1,sp=1,recompute=full"), {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  const std::string parallel = changed->text.substr(0, changed->text.find("TRAINING="));
  EXPECT_THAT(parallel,
              AllOf(HasSubstr("    --sequence-parallel\n"), HasSubstr("    --recompute-granularity full\n")));
}

TEST(PersonsFiles, ChangedLinesOfAContinuedCommand) {
  const FrameworkRun run = ReadFile(kMegatron, "one_command.txt");
  const auto changed = ChangePlan(run, *ParsePlanText("tp=4,pp=1,dp=4,mbs=8,sp=1,zero=1,grad_overlap=1"), {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, AllOf(HasSubstr("--tensor-model-parallel-size=4 --micro-batch-size 8 "),
                                   Not(HasSubstr("--recompute")), Not(HasSubstr("--overlap-param-gather")),
                                   HasSubstr("--sequence-parallel"), Not(HasSubstr("\n  \\\n"))));
}

TEST(PersonsFiles, ChangedLinesOfOptionsInAVariable) {
  const FrameworkRun run = ReadFile(kMegatron, "slurm.txt");
  const auto changed = ChangePlan(
      run,
      *ParsePlanText("tp=4,pp=4,dp=8,mbs=1,vpp=10,sp=1,zero=1,grad_overlap=1,param_overlap=1,p2p_overlap=1"),
      {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text,
              AllOf(HasSubstr("    --tensor-model-parallel-size 4 \\\n"),
                    HasSubstr("    --num-layers-per-virtual-pipeline-stage 2 \\\n"),
                    HasSubstr("--overlap-grad-reduce --overlap-param-gather"),
                    HasSubstr("#SBATCH --nodes=16\n"), Not(HasSubstr("--recompute-activations"))));
  EXPECT_TRUE(changed->besides.empty());
}

// A flag at the end of a string is removed without the quote that ends the string.
TEST(PersonsFiles, ChangedLinesOfOptionsInAString) {
  for (const char* options : {"--sequence-parallel --recompute-granularity full --recompute-method uniform "
                              "--recompute-num-layers 1",
                              "--sequence-parallel --recompute-granularity=full --recompute-method=uniform "
                              "--recompute-num-layers=1"}) {
    const std::string text =
        "PAR=\"" + std::string(options) +
        "\"\ntorchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py \\\n"
        "  --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 4096 "
        "--max-position-embeddings 4096 --vocab-size 32000 "
        "--tokenizer-type NullTokenizer --tensor-model-parallel-size 4 "
        "--pipeline-model-parallel-size 2 --use-distributed-optimizer \\\n"
        "  $PAR \\\n  --micro-batch-size 1 --global-batch-size 256 --bf16\n";
    const auto run = ReadFrameworkFile(kMegatron, "run.sh", text, {});
    ASSERT_TRUE(run.ok()) << run.status();
    ParallelPlan plan = run->plan;
    plan.recompute = {};
    const auto changed = ChangePlan(*run, plan, {});
    ASSERT_TRUE(changed.ok()) << changed.status();
    ASSERT_EQ(changed->lines.size(), 1u);
    EXPECT_EQ(changed->lines[0].line, 1);
    EXPECT_THAT(changed->text, AllOf(HasSubstr("PAR=\"--sequence-parallel"), Not(HasSubstr("--recompute"))));
  }
}

// Between all values of recompute, in the forms in which scripts have them; other options stay.
TEST(PersonsFiles, ChangedLinesOfRecomputation) {
  struct Form {
    const char* lines;
    const char* recompute;
  };
  const Form forms[] = {
      {"", "none"},
      {"  --recompute-activations\n", "selective"},
      {"  --recompute-granularity selective\n", "selective"},
      {"  --recompute-granularity selective\n  --recompute-modules core_attn\n", "selective"},
      {"  --recompute-granularity selective\n  --recompute-modules mlp core_attn\n",
       "selective:core_attn+mlp"},
      {"  --recompute-activations --recompute-modules mlp --log-throughput\n", "selective:mlp"},
      {"  --recompute-activations --recompute-modules mlp layernorm --log-throughput\n", "selective:mlp"},
      {"  --recompute-activations --recompute-modules $M --log-throughput\n", "selective:core_attn+mlp"},
      {"  --recompute-modules ${M} --recompute-activations\n", "selective:core_attn+mlp"},
      {"  --recompute-activations\n  --recompute-modules=mlp\n", "selective:mlp"},
      {"  --recompute-granularity selective\n  --recompute-modules layernorm\n", "none"},
      {"  --recompute-modules mlp\n", "none"},
      {"  --recompute-granularity full\n  --recompute-method uniform\n", "full"},
      {"  --recompute-granularity full --recompute-method block --recompute-num-layers 3 --log-throughput\n",
       "full:3"},
      {"  --recompute-granularity full\n  --recompute-method uniform\n  --recompute-modules mlp core_attn\n",
       "full"},
  };
  for (const Form& form : forms) {
    const std::string text =
        "M=\"core_attn mlp\"\nARGS=(\n  --num-layers 40 --hidden-size 5120 --num-attention-heads 40\n"
        "  --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000\n" +
        std::string(form.lines) +
        "  --attention-backend unfused\n  --eval-iters 7\n)\n"
        "torchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py ${ARGS[@]} \\\n"
        "  --micro-batch-size 1 --global-batch-size 256 --bf16\n";
    const auto run = ReadFrameworkFile(kMegatron, "run.sh", text, {});
    ASSERT_TRUE(run.ok()) << form.lines << run.status();
    EXPECT_EQ(RecomputeText(run->plan), form.recompute) << form.lines;
    for (const char* other :
         {"none", "selective", "selective:mlp", "selective:core_attn+mlp", "full", "full:2"}) {
      SCOPED_TRACE(text + " -> " + other);
      ParallelPlan plan = run->plan;
      ASSERT_TRUE(SetPlanOption(plan, "recompute", other).ok());
      const auto changed = ChangePlan(*run, plan, {});
      ASSERT_TRUE(changed.ok()) << changed.status();
      const auto again = ReadFrameworkFile(kMegatron, "run.sh", changed->text, {});
      ASSERT_TRUE(again.ok()) << changed->text << again.status();
      EXPECT_EQ(RecomputeText(again->plan), other) << changed->text;
      EXPECT_EQ(changed->lines.empty(), std::string_view(other) == form.recompute) << changed->text;
      EXPECT_THAT(changed->text, HasSubstr("  --eval-iters 7\n"));
      if (text.find("--log-throughput") != std::string::npos) {
        EXPECT_THAT(changed->text, HasSubstr("--log-throughput"));
      }
    }
  }
}

TEST(PersonsFiles, ChangedLinesSayWhatElseIsToBeDone) {
  const FrameworkRun run = ReadFile(kMegatron, "arrays.txt");
  const auto fsdp =
      ChangePlan(run, *ParsePlanText("tp=1,pp=1,dp=32,mbs=1,zero=3,grad_overlap=1,param_overlap=1"), {});
  ASSERT_TRUE(fsdp.ok()) << fsdp.status();
  EXPECT_THAT(fsdp->besides, Contains("do not set CUDA_DEVICE_MAX_CONNECTIONS"));
  // The script derives the global batch from what changes: it is written out.
  EXPECT_THAT(fsdp->text, HasSubstr("    --global-batch-size 64\n"));
  ReadingOptions options;
  options.ranks = 16;
  const FrameworkRun toml = ReadFile(kTorchtitan, "llama3.toml", options);
  const auto overlap = ChangePlan(
      toml, *ParsePlanText("tp=2,pp=1,dp=8,mbs=2,sp=1,zero=3,tp_overlap=2,grad_overlap=1,param_overlap=1"),
      options);
  ASSERT_TRUE(overlap.ok()) << overlap.status();
  EXPECT_THAT(overlap->besides, Contains(HasSubstr("enable_async_tensor_parallel")));
  EXPECT_THAT(overlap->text, HasSubstr("data_parallel_shard_degree = -1\n"));
}

TEST(PersonsFiles, ChangedLinesOfYaml) {
  const FrameworkRun run = ReadFile(kNemo, "config.yaml");
  const auto changed = ChangePlan(run, *ParsePlanText("tp=4,pp=2,dp=8,mbs=2,recompute=full,sp=1,zero=1"), {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text,
              AllOf(HasSubstr("  virtual_pipeline_model_parallel_size: null   # stages of a rank\n"),
                    HasSubstr("  activations_checkpoint_granularity: full\n"),
                    HasSubstr("overlap_grad_sync: false")));
}

// Values that the file has in another form, or leaves empty.
TEST(PersonsFiles, ChangedLinesOfOtherForms) {
  const std::string text = absl::StrReplaceAll(
      test::FileNamed("config.yaml"),
      {{"tensor_model_parallel_size: 4", "tensor_model_parallel_size: !!int 4"},
       {"activations_checkpoint_granularity: null", "activations_checkpoint_granularity:"}});
  const auto run = ReadFrameworkFile(kNemo, "config.yaml", text, {});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->plan.tp, 4);
  const auto changed =
      ChangePlan(*run, *ParsePlanText("tp=8,pp=2,dp=4,mbs=1,recompute=full,sp=1,zero=1"), {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_THAT(changed->text, AllOf(HasSubstr("  tensor_model_parallel_size: 8\n"), Not(HasSubstr("!!int")),
                                   HasSubstr("  activations_checkpoint_granularity: full\n"),
                                   Not(HasSubstr("granularity:\n"))));
}

TEST(PersonsFiles, ChangedLinesAddASectionOfJson) {
  ReadingOptions options;
  options.model = *ModelPreset("llama3-8b");
  const std::string text =
      "{\"bf16\": {\"enabled\": true},\n \"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 2,\n"
      " \"gradient_accumulation_steps\": 2}\n";
  const auto run = ReadFrameworkFile(kDeepSpeed, "ds.json", text, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(PlanText(run->plan), "tp=1,pp=1,dp=8,mbs=2");
  const auto changed =
      ChangePlan(*run, *ParsePlanText("tp=2,pp=1,dp=4,mbs=1,zero=2,grad_overlap=1"), options);
  ASSERT_TRUE(changed.ok()) << changed.status();
  const nlohmann::json json = nlohmann::json::parse(changed->text);
  EXPECT_EQ(json["zero_optimization"]["stage"], 2);
  EXPECT_EQ(json["tensor_parallel"]["autotp_size"], 2);
  EXPECT_EQ(json["gradient_accumulation_steps"], 8);
}

}  // namespace
}  // namespace autocfg
