// What `autocfg calibrate` says of a fit.
#include "cli/report/calibration_report.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace autocfg::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

Measurements TwoSteps() {
  Measurements steps{.rows = {}, .skipped = {}, .notes = {}, .cluster = {}};
  for (const std::int64_t line : {2, 3}) {
    steps.rows.emplace_back();
    steps.rows.back().line = line;
  }
  return steps;
}

ClusterFit Fitted() {
  ClusterFit fit{.cluster = {}, .residuals = {0.01, -0.2}};
  Calibration& calibration = fit.cluster.calibration.emplace();
  calibration.measurements = 2;
  calibration.one_node_sigma = 0.02;
  calibration.figures = {{"host_op_s", 2e-5, 1e-4, 0.1, true}, {"efficiency.matmul", 0.6, 0.5, 0.3, false}};
  return fit;
}

TEST(CalibrationReport, SaysHowWellEachFigureIsKnownAndWhichStepsAreFarthest) {
  const std::string text = CalibrationReport(TwoSteps(), Fitted());
  EXPECT_THAT(text, HasSubstr("fitted to 2 measured steps of 0 shapes"));
  EXPECT_THAT(text, HasSubstr("within 18%")) << "exp(1.645 * 0.1) - 1";
  EXPECT_THAT(text, HasSubstr("  not determined\n"));
  EXPECT_THAT(text, HasSubstr("not determined     more steps that may help\n"
                              "  efficiency.matmul  hidden of 4096 and more, tp=1\n"));
  EXPECT_THAT(text, Not(HasSubstr("small hidden"))) << "host_op_s is known";
  EXPECT_THAT(text, HasSubstr("within a node: 90% of the steps within 3.3%"));
  EXPECT_THAT(text, HasSubstr("over several nodes: none was measured"));
  EXPECT_LT(text.find("line 3: +22.1%"), text.find("line 2: -1.0%"));
  EXPECT_THAT(text, Not(HasSubstr("irregular")));

  ClusterFit many = Fitted();
  many.cluster.calibration->many_nodes_sigma = 0.2;
  EXPECT_THAT(CalibrationReport(TwoSteps(), many),
              HasSubstr("over several nodes: 90% of the steps from 15.2% faster to 39.0% slower"))
      << "exp(1.645 * 0.2), exp(-1.645 * 0.1)";
}

TEST(UnexplainedText, IsOfFitsThatAreFarFromHalfOfTheSteps) {
  ClusterFit fit = Fitted();
  fit.residuals = {0.01, -0.02, 0.7};
  EXPECT_EQ(UnexplainedText(fit), "");
  fit.residuals = {0.01, -0.7, -0.7};
  EXPECT_THAT(UnexplainedText(fit),
              HasSubstr("half of them are off by a factor of 2.01 or more; check the unit"));
}

TEST(CalibrationReport, NamesIrregularShapes) {
  ClusterFit fit = Fitted();
  fit.cluster.calibration->layers.irregular = {{{8192, 2048, 1, 2}, true, 0.3},
                                               {{3072, 2048, 4, 8}, false, 0.3}};
  EXPECT_THAT(CalibrationReport(TwoSteps(), fit),
              HasSubstr("irregular (layers far from the model and from all similar shapes)\n"
                        "  hidden=8192,seq_len=2048,tp=2, every micro_batch\n"
                        "  hidden=3072,seq_len=2048,tp=8, micro_batch=4\n"));
}

TEST(CalibrationReport, GathersSkippedRowsByReason) {
  Measurements steps = TwoSteps();
  steps.skipped = {{.line = 15, .reason = "it repeats line 2"}};
  EXPECT_EQ(SkippedText(steps), "1 row skipped, line 15: it repeats line 2\n");
  steps.skipped.push_back({.line = 16, .reason = "it repeats line 3"});
  steps.skipped.push_back({.line = 17, .reason = "its step time is 0"});
  EXPECT_EQ(SkippedText(steps),
            "1 row skipped, line 17: its step time is 0\n"
            "2 rows skipped, lines 15, 16: they repeat earlier lines\n");
}

}  // namespace
}  // namespace autocfg::cli
