// Settings that a framework printed into its log.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/changed_lines.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/megatron/megatron.h"
#include "search/plan/plan_text.h"
#include "search/plan/states/precision.h"
#include "search/text/model_json.h"
#include "tests/search/frameworks/persons_files.h"

namespace autocfg {
namespace {

using test::FileNamed;
using testing::HasSubstr;

absl::StatusOr<FrameworkRun> ReadChangedLog(const std::string& before, const std::string& after) {
  return ReadFrameworkFile(kMegatron, "run.log",
                           absl::StrReplaceAll(FileNamed("megatron.log"), {{before, after}}));
}

TEST(Logs, OfMegatronSayAWholeRun) {
  const FrameworkRun run = test::ReadFile(kMegatron, "megatron.log");
  EXPECT_EQ(run.ranks, 16);
  EXPECT_EQ(run.ranks_per_node, 0);
  EXPECT_EQ(run.model.vocab, 100000);
  EXPECT_EQ(run.model.kv_heads, 8);
  EXPECT_EQ(run.model.norm, Norm::kRmsNorm);
  EXPECT_EQ(run.model.position, Position::kRope);
  EXPECT_FALSE(run.model.mlp_bias);
  EXPECT_FALSE(run.model.tied_embeddings);
  EXPECT_EQ(run.workload.global_batch, 256);
  EXPECT_EQ(PrecisionText(run.workload.precision), "bf16");
  EXPECT_EQ(PlanText(run.plan), "tp=2,pp=1,dp=8,mbs=2,recompute=full,sp=1,zero=1,grad_overlap=1");
}

TEST(Logs, SayStagesByTheirNumber) {
  const auto run = ReadChangedLog("  pipeline_model_parallel_size .................... 1\n",
                                  "  pipeline_model_parallel_size .................... 4\n  "
                                  "virtual_pipeline_model_parallel_size ............ 3\n");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->plan.virtual_stages, 3);
  EXPECT_FALSE(run->plan.p2p_overlap) << "overlap_p2p_comm is False";
}

TEST(Logs, NameWhatIsRefused) {
  struct Case {
    std::string before, after, message;
  };
  for (const Case& c : {
           Case{"num_experts ..................................... None",
                "num_experts ..................................... 8",
                "run.log:26: --num-experts cannot be read"},
           Case{"micro_batch_size ................................ 2",
                "micro_batch_size ................................ two",
                "run.log:22: --micro-batch-size is 'two'"},
           Case{"- arguments -", "- options -", "run.log: it is a log without a list of arguments"},
           Case{"num_layers ...................................... 24", "other ...... 24",
                "--num-layers is missing"},
       }) {
    EXPECT_THAT(std::string(ReadChangedLog(c.before, c.after).status().message()), HasSubstr(c.message))
        << c.after;
  }
  std::string endless = "---- arguments ----\n";
  for (int i = 0; i < 11'000; ++i) absl::StrAppend(&endless, "  a", i, " .... 1\n");
  const auto many =
      ReadFrameworkFile(kMegatron, "run.log", absl::StrCat(endless, "- end of arguments ----\n"));
  EXPECT_THAT(std::string(many.status().message()), HasSubstr("more than 10000 settings"));
}

TEST(Logs, AreNotChanged) {
  const FrameworkRun run = test::ReadFile(kMegatron, "megatron.log");
  ParallelPlan plan = run.plan;
  plan.recompute = Recompute::kNone;
  EXPECT_THAT(std::string(ChangePlan(run, plan, {}).status().message()),
              HasSubstr("megatron.log is a log, which changes nothing"));
}

constexpr char kSummary[] =
    "======\nConfiguration Summary (Non-Default Values vs Megatron Core)\n======\n"
    "\n[ddp] Non-default values (vs Mcore DistributedDataParallelConfig):\n"
    "  overlap_grad_reduce: True  (Mcore default: False)\n"
    "  use_distributed_optimizer: True  (Mcore default: False)\n"
    "\n[model] Non-default values (vs Mcore TransformerConfig):\n"
    "  attention_backend: <AttnBackend.auto: 5>  (Mcore default: <AttnBackend.flash: 1>)\n"
    "  bf16: True  (Mcore default: False)\n"
    "  num_layers: 32  (Mcore default: 0)\n"
    "  num_query_groups: 8  (Mcore default: None)\n"
    "  sequence_parallel: True  (Mcore default: False)\n"
    "  tensor_model_parallel_size: 4  (Mcore default: 1)\n"
    "\n------\nOther Configuration Values:\n------\n"
    "\n[train]:\n  global_batch_size: 128\n  micro_batch_size: 1\n"
    "\n[dataset]:\n  seq_length: 8192\n"
    "\n======\n[others]\n  micro_batch_size: 7\n";

TEST(Logs, OfMegatronBridgeNeedTheModel) {
  EXPECT_EQ(FrameworkOf(kSummary), kMegatron);
  ReadingOptions options;
  options.ranks = 16;
  EXPECT_THAT(std::string(ReadFrameworkFile(kMegatron, "run.log", kSummary, options).status().message()),
              HasSubstr("prints neither positions nor vocabulary of its model; give --model"));
  options.model = *ModelPreset("llama3-8b");
  const auto run = ReadFrameworkFile(kMegatron, "run.log", kSummary, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->workload.seq_len, 8192);
  EXPECT_EQ(run->workload.global_batch, 128);
  EXPECT_EQ(PlanText(run->plan), "tp=4,pp=1,dp=4,mbs=1,sp=1,zero=1,grad_overlap=1");
}

}  // namespace
}  // namespace autocfg
