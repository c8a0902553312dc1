#include "cli/train/train_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
    TrainSummary summary;
    summary.losses = losses;
    summary.grad_norms = grad_norms;
    EXPECT_EQ(Divergence(summary), says);
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
  EXPECT_NE(table.find("       1           nan          -inf "), std::string::npos) << table;
}

TEST(TrainReport, ReportsOnlyMeasuredValues) {
  TrainSummary summary;
  summary.planned_memory_bytes = 2048;
  RunDescription run;
  run.plan = "tp=2";
  run.device = EngineDevice::kDry;
  run.ranks = 2;
  EXPECT_EQ(TrainReport(summary, run),
            "plan: tp=2 on dry, 2 ranks; nothing was computed\nmemory of the worst rank: 2.0 KiB planned\n");
  EXPECT_TRUE(TrainJson(summary, run)["tokens_per_s"].is_null());
  summary.tokens_per_s = 1234;
  EXPECT_NE(TrainReport(summary, run).find("1,234 (measured"), std::string::npos);
}

// The dry device does not compute slices either.
TEST(TrainReport, DryRunOfASlice) {
  TrainSummary summary;
  summary.planned_memory_bytes = 2048;
  RunDescription run;
  run.plan = "tp=2";
  run.device = EngineDevice::kDry;
  run.ranks = 2;
  run.slice.emplace().set_tensor(1);
  EXPECT_EQ(
      TrainReport(summary, run),
      "plan: tp=2 on dry; one of its 2 ranks alone, a slice: tensor 1, pipeline 0; nothing was computed\n"
      "memory of this rank: 2.0 KiB planned\n");
  summary.step_time_s = {2, 1};
  run.device = EngineDevice::kCpu;
  EXPECT_NE(TrainReport(summary, run).find("tp=2 on cpu; one of its 2 ranks ran alone, a slice"),
            std::string::npos);
  run.ranks = 1;
  EXPECT_NE(TrainReport(summary, run).find("on cpu; its only rank ran alone, a slice"), std::string::npos);
}

TEST(SummaryOf, MedianStepWithoutTheFirst) {
  worker::JobResult result;
  for (const double slow : {1.0, 2.0}) {
    auto& train = *result.ranks.emplace_back().last.mutable_train_result();
    for (const double s : {9.0, 1.0, 3.0, 2.0}) train.add_step_time_s(s * slow);
  }
  const auto summary = SummaryOf(result, {8, 16, *ParsePrecision("fp32")});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->step_time_s, (std::vector<double>{18, 2, 6, 4}));
  EXPECT_EQ(summary->tokens_per_s, 8 * 16 / 4.0);
  for (auto& rank : result.ranks) rank.last.mutable_train_result()->clear_step_time_s();
  EXPECT_EQ(SummaryOf(result, {8, 16, *ParsePrecision("fp32")})->tokens_per_s, std::nullopt);
}

}  // namespace
}  // namespace autocfg::cli
