// Step counts and time limits of trials.
#include "server/studies/trial_job.h"

#include "gtest/gtest.h"
#include "proto/convert/trainer_convert.h"
#include "search/cost/op_times/cluster_op_times.h"
#include "search/text/cluster_json.h"

namespace autocfg::server {
namespace {

TrialRequest Request(const ParallelPlan& plan, double predicted_step_s, std::int64_t repeat = 0) {
  TrialRequest request;
  request.plan = plan;
  request.repeat = repeat;
  request.predicted.step_time_s = predicted_step_s;
  return request;
}

StepCounts First(double predicted_step_s) { return StepsFor(Request({}, predicted_step_s)); }
StepCounts Repeat(double predicted_step_s) { return StepsFor(Request({}, predicted_step_s, 1)); }

TEST(StepsFor, MeasuresRepeatsForAboutASecond) {
  EXPECT_EQ(Repeat(0.001).timed, 20);
  EXPECT_EQ(Repeat(0.05).timed, 20);
  EXPECT_EQ(Repeat(0.1).timed, 10);
  EXPECT_EQ(Repeat(0.3).timed, 4);
  EXPECT_EQ(Repeat(1).timed, 3);
  EXPECT_EQ(Repeat(1000).timed, 3);
  EXPECT_EQ(Repeat(0).timed, 3);  // unknown
}

TEST(StepsFor, MeasuresFirstTrialsForAThirdOfASecond) {
  EXPECT_EQ(First(0.001).timed, 20);
  EXPECT_EQ(First(0.05).timed, 7);
  EXPECT_EQ(First(0.1).timed, 4);
  EXPECT_EQ(First(0.3).timed, 3);
  EXPECT_EQ(First(0).timed, 3);
}

TEST(StepsFor, WarmsUpTwiceIfStepsAreShort) {
  EXPECT_EQ(First(0.05).untimed, 3) << "the last one is recorded";
  EXPECT_EQ(First(0.1).untimed, 2);
  EXPECT_EQ(Repeat(5).untimed, 2);
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
  problem.cluster.local = true;
  problem.device = EngineDevice::kCpu;
  return problem;
}

// Three machines of two CPUs each.
SearchProblem ManyMachines() {
  SearchProblem problem = Problem();
  problem.cluster.local = false;
  NodeGroup& group = problem.cluster.groups.front();
  group.nodes = 3;
  group.intra_node_bytes_per_s = 1e9;
  group.inter_node_bytes_per_s = 1e8;
  problem.options.measurable_ranks = MeasurableRanks(problem);
  return problem;
}

TEST(TrialJob, TimeLimitIsGenerousAndAtLeastHalfAMinute) {
  ParallelPlan plan;
  plan.dp = 2;
  EXPECT_GE(TrialJob(Problem(), Request(plan, 0.001))->time_limit_s(), 30);
  const v1::Job slow = *TrialJob(Problem(), Request(plan, 10));
  EXPECT_GE(slow.time_limit_s(), 10 * 10 * static_cast<double>(slow.train().steps()));
  EXPECT_EQ(slow.ranks(), 2);
  EXPECT_EQ(slow.train().steps(), 5);
  EXPECT_EQ(slow.train().warmup_steps_untimed(), 2);
  EXPECT_TRUE(slow.train().record_breakdown());
}

TEST(TrialJob, GpuJobsGetMinutesToStart) {
  SearchProblem problem = Problem();
  problem.device = EngineDevice::kCuda;
  ParallelPlan plan;
  plan.dp = 2;
  EXPECT_GE(TrialJob(problem, Request(plan, 0.001))->time_limit_s(), 180);
  EXPECT_GT(TrialJob(problem, Request(plan, 10))->time_limit_s(),
            TrialJob(Problem(), Request(plan, 10))->time_limit_s());
  EXPECT_GE(CalibrationJob(problem, {}).time_limit_s(), 360);
}

TEST(TrialJob, MachineWithFewerGpusThanANodeRunsThatManyCopies) {
  SearchProblem problem = ManyMachines();
  problem.device = EngineDevice::kCuda;
  problem.machine_ranks = 1;
  EXPECT_EQ(MeasurableRanks(problem), 1);
  TrialRequest request = Request({{.pp = 2, .dp = 3}}, 0.1);
  request.slice = SliceCoordinates{};
  const v1::Job job = *TrialJob(problem, request);
  EXPECT_EQ(job.ranks(), 1);
  EXPECT_EQ(job.device(), "cuda");
  EXPECT_TRUE(job.train().has_slice());
  EXPECT_FALSE(job.train().record_breakdown()) << "a rank alone has no peers to wait for";
  EXPECT_EQ(CalibrationJob(problem, {}).ranks(), 1);
  EXPECT_EQ(CalibrationJob(problem, {}).device(), "cuda");
  problem.machine_ranks = 16;
  EXPECT_EQ(MeasurableRanks(problem), 6) << "workers run a plan together, and the cluster has no more";
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

// A hanging op ends it, an op that takes its time does not.
TEST(CalibrationJob, IsLimitedByABudgetAlone) {
  SearchProblem problem = Problem();
  EXPECT_EQ(CalibrationJob(problem, {}).calibrate().limit_s(), 0);
  EXPECT_GE(CalibrationJob(problem, {}).time_limit_s(), 24 * 3600);
  EXPECT_EQ(CalibrationJob(problem, {}).stall_limit_s(), 600);
  problem.time_budget_s = 20;
  EXPECT_EQ(CalibrationJob(problem, {}).calibrate().limit_s(), 5);
}

TEST(TrialJob, SliceRunsOneCopyPerRankOfTheMachine) {
  const SearchProblem problem = ManyMachines();
  EXPECT_EQ(EvidenceOf(problem), Evidence::kSlices);
  EXPECT_TRUE(NeedsCalibration(problem));
  EXPECT_EQ(MeasurableRanks(problem), 2);
  TrialRequest request = Request({{.tp = 2, .pp = 1, .dp = 3}}, 0.1);
  request.slice = SliceCoordinates{.tensor = 1, .pipeline = 0};
  const auto job = TrialJob(problem, request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->ranks(), 2);
  EXPECT_TRUE(job->fewer_ranks());
  EXPECT_FALSE(TrialJob(problem, Request({{.dp = 2}}, 0.1))->fewer_ranks()) << "a whole plan needs its ranks";
  ASSERT_TRUE(job->train().has_slice());
  EXPECT_EQ(job->train().slice().tensor(), 1);
  EXPECT_EQ(job->train().slice().pipeline(), 0);
  EXPECT_EQ(job->train().op_times_size(), 0);
}

TEST(CalibrationJob, LeavesOutGroupsLargerThanAMachine) {
  const OpDesc product{.kind = OpKind::kMatmul, .dims = {4, 4, 4}};
  const OpDesc sum{.kind = OpKind::kAllReduceSum, .group = CommGroup::kData, .group_size = 3, .dims = {64}};
  const OpDesc pair{
      .kind = OpKind::kAllReduceSum, .group = CommGroup::kTensor, .group_size = 2, .dims = {64}};
  const v1::Job many = CalibrationJob(ManyMachines(), {product, sum, pair});
  EXPECT_EQ(many.ranks(), 2);
  EXPECT_TRUE(many.fewer_ranks());
  EXPECT_FALSE(CalibrationJob(Problem(), {}).fewer_ranks()) << "plans run whole, as loaded as that";
  ASSERT_EQ(many.calibrate().ops_size(), 2);
  EXPECT_EQ(many.calibrate().ops(0).kind(), "matmul");
  EXPECT_EQ(many.calibrate().ops(1).group_size(), 2);
}

TEST(TrialJob, EmulatedPlanCarriesTheTimeOfEveryOp) {
  SearchProblem problem = Problem();
  problem.cluster = *PresetCluster("a100-80gb-sxm:1x2");
  problem.cluster.groups[0].host_op_s = 1e-5;
  problem.workload.precision = *ParsePrecision("bf16");
  problem.device = EngineDevice::kPaced;
  EXPECT_EQ(EvidenceOf(problem), Evidence::kPaced);
  EXPECT_FALSE(NeedsCalibration(problem));
  const ParallelPlan plan{{.pp = 2}};
  const auto job = TrialJob(problem, Request(plan, 0.1));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->ranks(), 2);
  EXPECT_EQ(job->device(), "paced");
  EXPECT_FALSE(job->train().has_slice());
  const auto times = ClusterOpTimes::Create(problem.cluster, problem.workload.precision);
  ASSERT_TRUE(times.ok()) << times.status();
  int sends = 0;
  for (const v1::OpTime& message : job->train().op_times()) {
    const auto time = FromProto(message);
    ASSERT_TRUE(time.ok()) << time.status();
    EXPECT_EQ(time->seconds, (*times)->Seconds(time->op, plan)) << ToString(time->op);
    sends += time->op.kind == OpKind::kSend ? 1 : 0;
  }
  EXPECT_EQ(sends, 1);
  EXPECT_EQ(job->train().host_op_s(), 1e-5);
}

// What another engine runs is its worker's matter: the job names it, and its start may take long.
TEST(TrialJob, OfAnotherEngineNamesIt) {
  SearchProblem problem = Problem();
  const auto own = TrialJob(problem, Request({{.dp = 2}}, 0.01));
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->engine(), "");
  EXPECT_TRUE(own->train().record_breakdown());
  problem.cluster.engine.name = "megatron";
  const auto job = TrialJob(problem, Request({{.dp = 2}}, 0.01));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->engine(), "megatron");
  EXPECT_FALSE(job->train().record_breakdown()) << "its log has no parts";
  EXPECT_GE(job->time_limit_s(), 1800);
  EXPECT_EQ(job->train().steps(), own->train().steps());
  EXPECT_EQ(CalibrationJob(problem, {}).engine(), "") << "op times are those of the built-in engine";
}

}  // namespace
}  // namespace autocfg::server
