// Steps and time limits of trials.
#include "server/trial_job.h"

#include "gtest/gtest.h"

namespace autocfg {
namespace {

TEST(StepsFor, MeasuresAboutASecondWithinBounds) {
  EXPECT_EQ(StepsFor(0.001).timed, 20);
  EXPECT_EQ(StepsFor(0.05).timed, 20);
  EXPECT_EQ(StepsFor(0.1).timed, 10);
  EXPECT_EQ(StepsFor(0.3).timed, 4);
  EXPECT_EQ(StepsFor(1).timed, 3);
  EXPECT_EQ(StepsFor(1000).timed, 3);
  EXPECT_EQ(StepsFor(0).timed, 3);  // not known
}

TEST(StepsFor, WarmsUpTwiceWhereStepsAreShort) {
  EXPECT_EQ(StepsFor(0.05).untimed, 2);
  EXPECT_EQ(StepsFor(0.1).untimed, 1);
  EXPECT_EQ(StepsFor(5).untimed, 1);
}

SearchProblem Problem() {
  SearchProblem problem;
  problem.model.layers = 2;
  problem.model.hidden = 32;
  problem.model.heads = 2;
  problem.model.vocab = 64;
  FillDefaults(problem.model, 16);
  problem.workload = {4, 16, *ParsePrecision("fp32")};
  NodeGroup group;
  group.device.memory_bytes = 1 << 20;
  group.gpus_per_node = 2;
  problem.cluster.groups.push_back(group);
  problem.device = "cpu";
  return problem;
}

TEST(TrialJob, TheTimeLimitIsGenerousAndAtLeastHalfAMinute) {
  ParallelPlan plan;
  plan.dp = 2;
  EXPECT_GE(TrialJob(Problem(), plan, 0.001).time_limit_s(), 30);
  const v1::Job slow = TrialJob(Problem(), plan, 10);
  EXPECT_GE(slow.time_limit_s(), 10 * 10 * static_cast<double>(slow.train().steps()));
  EXPECT_EQ(slow.ranks(), 2);
  EXPECT_EQ(slow.train().steps(), 4);
  EXPECT_EQ(slow.train().warmup_steps_untimed(), 1);
}

TEST(CalibrationJob, TakesAtMostAFifthOfTheBudget) {
  SearchProblem problem = Problem();
  EXPECT_EQ(CalibrationJob(problem, {}).calibrate().time_budget_s(), 10);
  EXPECT_EQ(CalibrationJob(problem, {}).ranks(), 2);
  problem.time_budget_s = 20;
  EXPECT_EQ(CalibrationJob(problem, {}).calibrate().time_budget_s(), 4);
  problem.time_budget_s = 1000;
  EXPECT_EQ(CalibrationJob(problem, {}).calibrate().time_budget_s(), 10);
}

}  // namespace
}  // namespace autocfg
