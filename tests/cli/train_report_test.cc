#include "cli/train/train_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "cli/report/trace_file.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg::cli {
namespace {

TEST(Divergence, NamesTheFirstNonFiniteStep) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  struct Case {
    std::vector<double> losses, grad_norms;
    const char* says;
  };
  for (const auto& [losses, grad_norms, says] :
       {Case{{}, {}, ""}, Case{{3, 2}, {1, 1}, ""}, Case{{3, nan}, {1, nan}, "step 2: the loss is nan"},
        Case{{-nan}, {1}, "step 1: the loss is nan"}, Case{{inf}, {1}, "step 1: the loss is inf"},
        Case{{3, 2, nan}, {1, inf, nan}, "step 2: the gradient norm is inf"}}) {
    v1::TrainResult result;
    result.mutable_losses()->Assign(losses.begin(), losses.end());
    result.mutable_grad_norms()->Assign(grad_norms.begin(), grad_norms.end());
    EXPECT_EQ(Divergence(result), says);
  }
}

// The sign of a NaN is not shown.
TEST(TrainDisplay, NonFiniteValuesHaveNoSign) {
  v1::Progress progress;
  progress.set_step(1);
  progress.set_loss(-std::nan(""));
  progress.set_grad_norm(-std::numeric_limits<double>::infinity());
  progress.set_step_time_s(1);
  testing::internal::CaptureStdout();
  TrainDisplay(false, true, 1, {8, 16, *ParsePrecision("fp32")}).Step(0, progress);
  const std::string table = testing::internal::GetCapturedStdout();
  EXPECT_NE(table.find("       1          nan         -inf "), std::string::npos) << table;
}

TEST(TrainDisplay, ShowsMemoryAndTheShareOfThePeak) {
  PlannedRun run;
  run.model = {.layers = 2, .hidden = 64, .heads = 2, .vocab = 128, .max_seq_len = 16};
  FillDefaults(run.model, 0);
  run.cluster = *PresetCluster("a100-80gb-sxm:1x1");
  run.workload = {8, 16, *ParsePrecision("bf16")};
  v1::Progress progress;
  progress.set_step(2);
  progress.set_step_time_s(1e-6);
  progress.set_peak_memory_bytes(3 << 20);
  const StepFigures figures = FiguresOf(progress, false, run.workload, run);
  EXPECT_FALSE(figures.loss.has_value());
  EXPECT_EQ(figures.memory_bytes, 3 << 20);
  ASSERT_TRUE(figures.mfu.has_value());
  EXPECT_NEAR(*figures.mfu, *figures.model_flops_per_s_per_gpu / 312e12, 1e-3 * *figures.mfu);
}

TEST(KeepTraceRanks, KeepsAllOfASmallTraceAndOneOfEachStageOfALargeOne) {
  ParallelPlan plan;
  plan.tp = 2;
  plan.pp = 3;
  const auto rows_of = [](std::int32_t ranks, std::int32_t each) {
    std::vector<TraceRow> rows;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      for (std::int32_t i = 0; i < each; ++i) rows.push_back({.rank = rank, .action = i});
    }
    return rows;
  };
  const auto ranks_in = [](const std::vector<TraceRow>& rows) {
    std::set<std::int32_t> ranks;
    for (const TraceRow& row : rows) ranks.insert(row.rank);
    return ranks;
  };
  std::vector<TraceRow> rows = rows_of(6, 10'000);
  EXPECT_EQ(KeepTraceRanks({}, plan, rows), "");
  EXPECT_EQ(rows.size(), kMostTraceRows);
  rows = rows_of(6, 10'001);
  EXPECT_NE(KeepTraceRanks({}, plan, rows), "");
  EXPECT_EQ(ranks_in(rows).size(), 3u);
  rows = rows_of(6, 25'000);
  EXPECT_NE(KeepTraceRanks({}, plan, rows), "");
  EXPECT_EQ(ranks_in(rows).size(), 2u) << "the first and the last stage";
  rows = rows_of(6, 25'000);
  EXPECT_EQ(KeepTraceRanks(std::vector<std::int32_t>{1, 5}, plan, rows), "");
  EXPECT_EQ(ranks_in(rows), (std::set<std::int32_t>{1, 5})) << "as asked, whatever the size";
}

TEST(TrainReport, ReportsOnlyMeasuredValues) {
  v1::TrainResult result;
  result.mutable_planned_memory_bytes()->set_total(2048);
  RunDescription run;
  run.plan = "tp=2";
  run.device = EngineDevice::kDry;
  run.ranks = 2;
  run.model = *ModelPreset("gpt2-124m");
  EXPECT_EQ(TrainReport(result, run),
            "plan: tp=2 on dry, 2 ranks; nothing was computed\nmemory of the worst rank: 2.0 KiB planned\n"
            "params: 124 M\n");
  EXPECT_EQ(TrainJson(result, run)["parameters"], 124'439'808);
  EXPECT_TRUE(TrainJson(result, run)["tokens_per_s"].is_null());
  run.workload.global_batch = 617;
  run.workload.seq_len = 4;
  result.add_step_time_s(2);
  EXPECT_NE(TrainReport(result, run).find("1,234 (measured"), std::string::npos);
}

// The dry device does not compute slices either.
TEST(TrainReport, DryRunOfASlice) {
  v1::TrainResult result;
  result.mutable_planned_memory_bytes()->set_total(2048);
  RunDescription run;
  run.plan = "tp=2";
  run.device = EngineDevice::kDry;
  run.ranks = 2;
  run.slice.emplace().set_tensor(1);
  run.model = *ModelPreset("llama3-8b");
  EXPECT_EQ(TrainReport(result, run),
            "plan: tp=2 on dry; one of its 2 ranks alone, a slice: tensor 1, pipeline 0;\n      nothing was "
            "computed\n"
            "memory of this rank: 2.0 KiB planned\nparams: 8.03 B\n");
  for (const double s : {2.0, 1.0}) result.add_step_time_s(s);
  run.device = EngineDevice::kCpu;
  EXPECT_NE(TrainReport(result, run).find("tp=2 on cpu; one of its 2 ranks ran alone, a slice"),
            std::string::npos);
  run.ranks = 1;
  EXPECT_NE(TrainReport(result, run).find("on cpu; its only rank ran alone, a slice"), std::string::npos);
}

TEST(TokensPerSecond, MedianStepWithoutTheFirst) {
  RunDescription run;
  run.workload = {8, 16, *ParsePrecision("fp32")};
  v1::TrainResult result;
  EXPECT_EQ(TokensPerSecond(result, run), std::nullopt);
  result.add_step_time_s(18);
  EXPECT_EQ(TokensPerSecond(result, run), 8 * 16 / 18.0);
  for (const double s : {2.0, 6.0, 4.0}) result.add_step_time_s(s);
  EXPECT_EQ(TokensPerSecond(result, run), 8 * 16 / 4.0);
  run.slice.emplace();
  EXPECT_EQ(TokensPerSecond(result, run), std::nullopt) << "one rank's time is not the step's";
}

}  // namespace
}  // namespace autocfg::cli
