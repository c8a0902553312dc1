// Files of nanotron: the run that they are read as, what is refused by name, and the lines to change.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/frameworks/changed_lines.h"
#include "search/frameworks/export_target.h"
#include "search/frameworks/framework_file.h"
#include "search/frameworks/nanotron/nanotron.h"
#include "search/plan/engine_stages/weighted_stages.h"
#include "search/plan/plan_text.h"
#include "search/plan/states/precision.h"
#include "tests/search/frameworks/persons_files.h"

namespace autocfg {
namespace {

using test::FileNamed;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<FrameworkRun> ReadChangedNanotron(const std::string& before, const std::string& after,
                                                 const ReadingOptions& options = {}) {
  const std::string text = absl::StrReplaceAll(FileNamed("nanotron.yaml"), {{before, after}});
  return ReadFrameworkFile(kNanotron, "a.yaml", text, options);
}

TEST(NanotronFiles, SayAWholeRun) {
  const FrameworkRun run = test::ReadFile(kNanotron, "nanotron.yaml");
  EXPECT_EQ(run.ranks, 16);
  EXPECT_EQ(run.model.layers, 24);
  EXPECT_EQ(run.model.kv_heads, 8);
  EXPECT_EQ(run.model.vocab, 49152);
  EXPECT_EQ(run.model.activation, Activation::kSwiGlu);
  EXPECT_FALSE(run.model.qkv_bias);
  EXPECT_EQ(run.workload.seq_len, 2048);
  EXPECT_EQ(run.workload.global_batch, 128);
  EXPECT_EQ(PrecisionText(run.workload.precision), "bf16");
  EXPECT_EQ(PlanText(run.plan), "tp=2,pp=1,dp=8,mbs=4,sp=1,zero=1,grad_overlap=1");
}

// Its balance counts the output layer.
TEST(NanotronFiles, BalanceTheirStages) {
  ModelSpec model;
  model.layers = 24;
  model.hidden = 2048;
  model.heads = 16;
  model.head_dim = 128;
  model.ffn_hidden = 8192;
  model.vocab = 128256;
  EXPECT_THAT(StagesByWeight(model, 1), ElementsAre(24));
  EXPECT_THAT(StagesByWeight(model, 2), ElementsAre(14, 10));
  model.vocab = 1;
  EXPECT_THAT(StagesByWeight(model, 2), ElementsAre(13, 11));
  const auto run = ReadChangedNanotron("pp: 1\n", "pp: 2\n");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->ranks, 32);
  EXPECT_EQ(run->plan.schedule, Schedule::kOneFOneB);
  EXPECT_EQ(run->plan.split, SplitMode::kExplicit);
  const auto filled = ReadChangedNanotron("pp_engine: 1f1b", "pp_engine: afab");
  ASSERT_TRUE(filled.ok()) << filled.status();
  const auto emptied = ReadChangedNanotron("pp: 1\n", "pp: 24\n");
  EXPECT_THAT(std::string(emptied.status().message()), HasSubstr("leaves a stage without a layer of 24"));
}

// src/nanotron/config/parallelism_config.py: tp_recompute_allgather is true by default.
TEST(NanotronFiles, SayWhetherGatheredInputsAreKept) {
  const auto engine = [](const std::string& line) {
    const auto run = ReadChangedNanotron("  tp_mode:", line + "  tp_mode:");
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->engine : "";
  };
  EXPECT_EQ(engine(""), "nanotron:gathered_inputs=0");
  EXPECT_EQ(engine("  tp_recompute_allgather: true\n"), "nanotron:gathered_inputs=0");
  EXPECT_EQ(engine("  tp_recompute_allgather: false\n"), "nanotron:gathered_inputs=2");
}

TEST(NanotronFiles, SayTypesOfStates) {
  const auto narrow = ReadChangedNanotron("accumulate_grad_in_fp32: true", "accumulate_grad_in_fp32: false");
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_EQ(PrecisionText(narrow->workload.precision), "bf16:grads=bf16,moments=bf16,master=none");
  const auto full = ReadChangedNanotron("dtype: bfloat16", "dtype: float32");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(PrecisionText(full->workload.precision), "fp32");
}

TEST(NanotronFiles, NameWhatIsRefused) {
  struct Case {
    std::string before, after, message;
  };
  for (const Case& c : {
           Case{"dp: 8", "dp: eight", "a.yaml:28: parallelism.dp is 'eight'; give a whole number"},
           Case{"  dp: 8\n", "", "parallelism.dp is missing; add it"},
           Case{"zero_stage: 1", "zero_stage: 3", "optimizer.zero_stage is '3'; give a whole number from 0"},
           Case{"tp_mode: REDUCE_SCATTER", "tp_mode: RING", "is 'RING'; give ALL_REDUCE or REDUCE_SCATTER"},
           Case{"pp_engine: 1f1b", "pp_engine: zb", "is 'zb'; give 1f1b or afab"},
           Case{"dtype: bfloat16", "dtype: fp8", "is 'fp8', which is not modelled"},
           Case{"  tp: 2", "  context_parallel_size: 2\n  tp: 2", "context parallelism is not modelled"},
           Case{"  tp: 2", "  expert_parallel_size: 2\n  tp: 2", "mixtures of experts are not modelled"},
           Case{"  tp: 2", "  sharded_tp: 4\n  tp: 2", "parallelism.sharded_tp is unknown to autocfg"},
           Case{"hidden_act: silu", "hidden_act: relu", "is 'relu', which is not modelled"},
           Case{"vocab_size: 49152", "vocab_size: -1", "is that of the data set; give --vocab"},
           Case{"is_llama_config: true", "moe_config: {num_experts: 8}", "mixtures of experts"},
           Case{"is_llama_config: true", "is_mamba_config: true", "other layers than attention"},
       }) {
    const auto run = ReadChangedNanotron(c.before, c.after);
    EXPECT_THAT(std::string(run.status().message()), HasSubstr(c.message)) << c.after;
  }
}

TEST(NanotronFiles, AreChangedAndNotExported) {
  const FrameworkRun run = test::ReadFile(kNanotron, "nanotron.yaml");
  ParallelPlan plan = run.plan;
  plan.tp = 1;
  plan.dp = 16;
  plan.sequence_parallel = false;
  plan.recompute = Recompute::kFull;
  const auto changed = ChangePlan(run, plan, {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  std::vector<std::string> after;
  for (const ChangedLine& line : changed->lines)
    after.insert(after.end(), line.after.begin(), line.after.end());
  EXPECT_THAT(after, ElementsAre("  dp: 16", "  recompute_layer: true", "  tp: 1", "  tp_mode: ALL_REDUCE",
                                 "  batch_accumulation_per_replica: 2"));
  EXPECT_EQ(FindExportTarget(kNanotron), nullptr);
}

}  // namespace
}  // namespace autocfg
