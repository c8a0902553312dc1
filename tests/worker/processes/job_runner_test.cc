#include "worker/jobs/job_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "tests/support/fake_nvml/fake_gpus.h"
#include "tests/support/missing_path.h"
#include "tests/worker/launch_helpers.h"
#include "worker/jobs/slots.h"
#include "worker/machine/inventory.h"

namespace autocfg::worker {
namespace {

RankEnd Trained(const std::vector<double>& steps, std::int64_t planned, std::int64_t peak,
                std::int64_t overhead) {
  RankEnd rank;
  rank.finished = true;
  auto& result = *rank.last.mutable_train_result();
  for (const double step : steps) {
    result.add_step_time_s(step);
    result.add_losses(10 - static_cast<double>(result.losses_size()));
  }
  result.mutable_planned_memory_bytes()->set_total(planned);
  result.set_peak_memory_bytes(peak);
  result.set_device_overhead_bytes(overhead);
  return rank;
}

// Returns a lease on a whole job.
v1::LeaseWorkResponse LeaseOf(const v1::Job& job) {
  v1::LeaseWorkResponse lease;
  *lease.mutable_job() = job;
  return lease;
}

// Returns the first `count` slots.
std::vector<int> Slots(int count) {
  std::vector<int> slots(static_cast<std::size_t>(count));
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

// Runs on the first slots of an idle worker.
JobReport RunOn(const v1::LeaseWorkResponse& lease, const v1::Inventory& inventory, ProcessLauncher& launcher,
                const LaunchHooks& hooks = {}, double patience_s = 0) {
  const int slots = std::clamp<int>(SlotsToTake(lease, inventory), 0, static_cast<int>(inventory.slots()));
  return RunJob(lease, inventory, {}, {}, Slots(slots), launcher, hooks,
                std::chrono::duration<double>(patience_s));
}

TEST(MakeJobRequest, RanksBelongToTheTraceOfTheirJob) {
  v1::Job job;
  job.set_ranks(2);
  EXPECT_TRUE(MakeJobRequest(job, {}).environment.empty());
  job.set_trace_parent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  const std::vector<std::string> variables = MakeJobRequest(job, {}).environment;
  ASSERT_EQ(variables.size(), 1u);
  EXPECT_TRUE(variables[0].starts_with("TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-")) << variables[0];
  EXPECT_TRUE(variables[0].ends_with("-01")) << variables[0];
  EXPECT_EQ(variables[0].find("00f067aa0ba902b7"), std::string::npos) << "a span of its own";
  job.set_trace_parent("00-forged\nLD_PRELOAD=x");
  EXPECT_TRUE(MakeJobRequest(job, {}).environment.empty());
}

TEST(MakeJobRequest, OneRunSpecPerRank) {
  v1::Job job;
  job.set_ranks(3);
  job.set_device("cpu");
  job.set_time_limit_s(7.5);
  job.mutable_train()->set_steps(11);
  const JobRequest request = MakeJobRequest(job, {0, 1, 2});
  ASSERT_EQ(request.ranks.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    const auto& spec = request.ranks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(spec.rank(), rank);
    EXPECT_EQ(spec.world_size(), 3);
    EXPECT_EQ(spec.device(), "cpu");
    EXPECT_EQ(spec.train().steps(), 11);
  }
  EXPECT_EQ(request.time_limit.count(), 7.5);
  EXPECT_EQ(request.cores.size(), 3u);
}

TEST(TrainResultOf, NamesTheRankThatDoesNotMatch) {
  JobResult result;
  EXPECT_EQ(TrainResultOf(result).status().code(), absl::StatusCode::kInternal);
  result.ranks = {Trained({1, 2}, 1, 1, 1), Trained({2, 1}, 1, 1, 1)};
  ASSERT_TRUE(TrainResultOf(result).ok());
  EXPECT_EQ(TrainResultOf(result)->step_time_s(0), 2);
  result.ranks.push_back(Trained({1}, 1, 1, 1));
  EXPECT_EQ(TrainResultOf(result).status().message(), "rank 2 timed 1 steps, rank 0 2");
  result.ranks[1] = {};
  EXPECT_EQ(TrainResultOf(result).status().message(), "rank 1 ended without a result");
}

TEST(MeasuredReport, SlowestRankOfEachStepAndWorstMemory) {
  JobResult result;
  result.wall_s = 3;
  result.ranks = {Trained({1, 2, 3}, 100, 90, 5), Trained({2, 1, 4}, 120, 80, 7)};
  const auto measurement = MeasuredReport(result).measurement;
  ASSERT_TRUE(measurement);
  EXPECT_EQ(std::vector<double>(measurement->step_time_s().begin(), measurement->step_time_s().end()),
            (std::vector<double>{2, 2, 4}));
  EXPECT_EQ(measurement->median_step_time_s(), 2);
  // Student's t for three values: 4.303 s / sqrt(3).
  EXPECT_NEAR(measurement->ci95_s(), 4.303 * std::sqrt(4.0 / 3) / std::sqrt(3.0), 1e-12);
  EXPECT_EQ(measurement->planned_memory_bytes(), 120);
  EXPECT_EQ(measurement->peak_memory_bytes(), 90);
  EXPECT_EQ(measurement->device_overhead_bytes(), 7);
  EXPECT_EQ(measurement->first_loss(), 10);
  EXPECT_EQ(measurement->last_loss(), 8);
  EXPECT_EQ(measurement->device_s(), 6);
}

TEST(MeasuredReport, IntervalOfSingleStepIsItsTime) {
  JobResult result;
  result.ranks = {Trained({3}, 1, 1, 1)};
  EXPECT_EQ(MeasuredReport(result).measurement->ci95_s(), 3);
}

TEST(MeasuredReport, RejectsMismatchedRanks) {
  JobResult result;
  EXPECT_FALSE(MeasuredReport(result).measurement);
  result.ranks = {Trained({1, 2}, 1, 1, 1), Trained({1}, 1, 1, 1)};
  EXPECT_FALSE(MeasuredReport(result).measurement);
  result.ranks = {Trained({}, 1, 1, 1)};
  EXPECT_FALSE(MeasuredReport(result).measurement) << "nothing was timed";
  result.ranks = {Trained({1, 2}, 1, 1, 1)};
  EXPECT_TRUE(MeasuredReport(result).measurement);
  result.ranks.emplace_back();
  EXPECT_FALSE(MeasuredReport(result).measurement) << "a rank without a result";
}

v1::TimelineRow Row(int pipeline, double start_s) {
  v1::TimelineRow row;
  row.set_pipeline(pipeline);
  row.set_start_s(start_s);
  row.set_end_s(start_s + 1);
  return row;
}

TEST(MeasuredReport, TimelineHasTheRowsOfAllRanksInOrderOfTime) {
  JobResult result;
  result.ranks = {Trained({1}, 1, 1, 1), Trained({1}, 1, 1, 1), Trained({1}, 1, 1, 1)};
  EXPECT_FALSE(MeasuredReport(result).timeline) << "nothing was recorded";
  for (int rank = 0; rank < 2; ++rank) {
    v1::StepTimeline& own =
        *result.ranks[static_cast<std::size_t>(rank)].last.mutable_train_result()->mutable_timeline();
    *own.add_rows() = Row(rank, rank);
    *own.add_rows() = Row(rank, rank + 5);
  }
  const auto timeline = MeasuredReport(result).timeline;
  ASSERT_TRUE(timeline);
  ASSERT_EQ(timeline->rows_size(), 4);
  const std::vector<double> starts = {0, 1, 5, 6};
  for (int row = 0; row < 4; ++row) {
    EXPECT_EQ(timeline->rows(row).start_s(), starts[static_cast<std::size_t>(row)]);
    EXPECT_EQ(timeline->rows(row).pipeline(), row % 2);
  }
}

v1::OpTime Timed(const std::string& kind, std::int64_t n, double seconds) {
  v1::OpTime time;
  time.mutable_op()->set_kind(kind);
  time.mutable_op()->add_dims(n);
  time.set_seconds(seconds);
  return time;
}

TEST(CalibrationOf, MeanOfComputeAndSlowestOfCommunication) {
  JobResult result;
  result.ranks.resize(2);
  auto& first = *result.ranks[0].last.mutable_calibrate_result();
  auto& second = *result.ranks[1].last.mutable_calibrate_result();
  *first.add_ops() = Timed("matmul", 8, 1.0);
  *first.add_ops() = Timed("all_reduce_sum", 8, 1.0);
  *first.add_ops() = Timed("matmul", 16, 5.0);
  *second.add_ops() = Timed("all_reduce_sum", 8, 3.0);
  *second.add_ops() = Timed("matmul", 8, 2.0);
  first.set_device_overhead_bytes(100);
  second.set_device_overhead_bytes(300);
  const auto calibration = CalibrationOf(result);
  EXPECT_EQ(calibration.device_overhead_bytes(), 300) << "a plan must fit beside the most";
  ASSERT_EQ(calibration.ops_size(), 3);
  EXPECT_EQ(calibration.ops(0).op().kind(), "matmul");
  EXPECT_EQ(calibration.ops(0).seconds(), 1.5);
  EXPECT_EQ(calibration.ops(1).seconds(), 3.0);
  EXPECT_EQ(calibration.ops(2).op().dims(0), 16);
  EXPECT_EQ(calibration.ops(2).seconds(), 5.0) << "timed by one rank only";
}

TEST(MakeJobRequest, ShareHasItsRanksOfTheJob) {
  v1::Job job;
  job.set_ranks(5);
  job.set_device("cpu");
  job.mutable_train()->set_steps(1);
  v1::Share share;
  share.set_first_rank(2);
  share.set_ranks(2);
  const JobRequest request = MakeJobRequest(job, share, {6, 7}, {});
  ASSERT_EQ(request.ranks.size(), 2u);
  EXPECT_EQ(request.ranks[0].rank(), 2);
  EXPECT_EQ(request.ranks[1].rank(), 3);
  EXPECT_EQ(request.ranks[1].world_size(), 5);
  EXPECT_EQ(request.cores.size(), 2u);
}

// A worker with two cores runs two of the four ranks asked for: it cannot time sums of four.
TEST(MakeJobRequest, FewerRanksTimeNoLargerGroups) {
  v1::Job job;
  job.set_ranks(2);
  job.set_device("cpu");
  for (const int size : {1, 2, 4}) job.mutable_calibrate()->add_ops()->set_group_size(size);
  const auto timed = [&] { return MakeJobRequest(job, {0, 1}).ranks[0].calibrate().ops_size(); };
  EXPECT_EQ(timed(), 3) << "the ranks say that they cannot";
  job.set_fewer_ranks(true);
  EXPECT_EQ(timed(), 2);
}

TEST(MakeJobRequest, OnlyGpuRanksArePinnedToGpus) {
  v1::Job job;
  job.set_ranks(2);
  job.set_device("cuda");
  EXPECT_EQ(MakeJobRequest(job, {}, {"GPU-a"}).gpus, (std::vector<std::string>{"GPU-a", "GPU-a"}));
  for (const char* other : {"cpu", "paced", "dry"}) {
    job.set_device(other);
    EXPECT_TRUE(MakeJobRequest(job, {}, {"GPU-a"}).gpus.empty()) << other;
  }
}

TEST(RunJob, RefusesJobsThatItCannotRun) {
  ProcessLauncher launcher(Missing("/nonexistent/trainer"));
  v1::Inventory inventory;
  inventory.set_slots(2);
  v1::LeaseWorkResponse lease;
  v1::Job& job = *lease.mutable_job();
  job.set_name("studies/1/trials/1");
  job.mutable_train()->set_steps(1);
  const JobReport no_ranks = RunOn(lease, inventory, launcher);
  EXPECT_EQ(no_ranks.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(no_ranks.failure, v1::FAILURE_KIND_OWN);
  job.set_ranks(3);
  const auto report = RunOn(lease, inventory, launcher);
  EXPECT_EQ(report.outcome, v1::OUTCOME_FAILED);
  EXPECT_NE(report.message.find("3 ranks"), std::string::npos) << report.message;
  for (const auto& [first, ranks] :
       {std::pair{0, 0}, std::pair{2, 2}, std::pair{-1, 2}, std::pair{0, 4}, std::pair{2147483647, 2}}) {
    lease.mutable_share()->set_first_rank(first);
    lease.mutable_share()->set_ranks(ranks);
    EXPECT_NE(RunOn(lease, inventory, launcher).message.find("not within its 3"), std::string::npos)
        << first << ' ' << ranks;
  }
  lease.clear_share();
  job.set_ranks(1);
  job.clear_train();
  EXPECT_NE(RunOn(lease, inventory, launcher).message.find("a kind"), std::string::npos);
}

// CPU jobs with scripted ranks (tests/worker/fake_trainer.cc).
class CpuJobTest : public testing::Test {
 protected:
  static v1::LeaseWorkResponse Modes(const std::string& modes, int ranks) {
    v1::LeaseWorkResponse lease;
    v1::Job& job = *lease.mutable_job();
    job.set_name("studies/1/trials/1");
    job.set_ranks(ranks);
    job.set_device("cpu");
    job.set_time_limit_s(60);
    job.mutable_train()->mutable_model()->set_name(modes);
    job.mutable_train()->set_steps(1);
    return lease;
  }
  static JobReport Run(const v1::LeaseWorkResponse& lease, const LaunchHooks& hooks = {}) {
    ProcessLauncher launcher(FakeTrainerPath());
    return RunOn(lease, LocalInventory(4), launcher, hooks);
  }
};

TEST_F(CpuJobTest, ReportsFailureKind) {
  const auto kind = [](const std::string& modes, int ranks) {
    const JobReport report = Run(Modes(modes, ranks));
    EXPECT_EQ(report.outcome, v1::OUTCOME_FAILED) << modes;
    return report.failure;
  };
  EXPECT_EQ(kind("internal", 1), v1::FAILURE_KIND_OWN);
  EXPECT_EQ(kind("bad_input", 1), v1::FAILURE_KIND_OWN);
  EXPECT_EQ(kind("garbage", 1), v1::FAILURE_KIND_OWN);
  EXPECT_EQ(kind("ok,gather_name", 2), v1::FAILURE_KIND_OWN);
  EXPECT_EQ(kind("hang,kill", 2), v1::FAILURE_KIND_PROCESS);
  EXPECT_EQ(kind("exit_5", 1), v1::FAILURE_KIND_PROCESS);
  EXPECT_EQ(kind("silent", 1), v1::FAILURE_KIND_PROCESS);
  EXPECT_EQ(kind("hang,abort", 2), v1::FAILURE_KIND_PROCESS);
  EXPECT_EQ(kind("hang,unavailable", 2), v1::FAILURE_KIND_PEER);
  EXPECT_EQ(kind("abort,unavailable", 2), v1::FAILURE_KIND_PEER) << "UCX aborts where a peer is gone";
  EXPECT_EQ(kind("unavailable,kill_late", 2), v1::FAILURE_KIND_PROCESS) << "the peer was one of ours";
  EXPECT_EQ(kind("unavailable,internal_late", 2), v1::FAILURE_KIND_OWN);
  EXPECT_EQ(Run(Modes("ok", 1)).failure, v1::FAILURE_KIND_UNSPECIFIED);
  EXPECT_EQ(Run(Modes("out_of_memory", 1)).failure, v1::FAILURE_KIND_UNSPECIFIED);
}

TEST_F(CpuJobTest, KeepsLogTailsOfFailedRanks) {
  const JobReport report = Run(Modes("hang,exit_5,hang", 3));
  EXPECT_EQ(report.log, "rank 1:\nfirst line\nthe disk is full\n\n");
  // A rank that ends long after the cause is known was ended by the launcher, as may be on a loaded machine.
  std::string both;
  for (int i = 0;
       i < 20 && (both.find("rank 1:") == std::string::npos || both.find("rank 2:") == std::string::npos);
       ++i)
    both = Run(Modes("hang,exit_5,not_utf8", 3)).log;
  EXPECT_EQ(both, report.log + "rank 2:\nbroken ?? bytes\n");
  const JobReport bytes = Run(Modes("not_utf8", 1));
  EXPECT_EQ(bytes.log, "rank 0:\nbroken ?? bytes\n");
  EXPECT_EQ(bytes.message, "rank 0: exit status 6: broken ?? bytes");
  EXPECT_EQ(Run(Modes("flood", 1)).log, "") << "it went well";
  const JobReport much = Run(Modes("flood_then_fail,flood_then_fail,flood_then_fail,flood_then_fail", 4));
  EXPECT_LE(much.log.size(), kMaxLogBytes);
  EXPECT_GT(much.log.size(), kMaxLogBytes / 2);
}

TEST_F(CpuJobTest, AJobAboveTheAllowanceOfTheWorkerFails) {
  ProcessLauncher launcher(FakeTrainerPath(), FindSupervisor(), {.processes = 5});
  const JobReport report = RunOn(Modes("many_processes", 1), LocalInventory(4), launcher);
  EXPECT_EQ(report.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(report.failure, v1::FAILURE_KIND_OWN);
  EXPECT_THAT(report.message, testing::HasSubstr(" processes, above its limit of 5; start fewer"));
}

TEST(LimitsOf, DependOnTheRanksAndTheMachineUnlessTheyAreGiven) {
  JobLimits limits = LimitsOf({}, 3);
  EXPECT_EQ(limits.processes, 3 * 1024);
  EXPECT_LT(limits.memory_bytes, MemoryLimitBytes());
  EXPECT_GT(limits.memory_bytes, LocalCluster(1)->groups.front().device.memory_bytes)
      << "a plan of one rank may take so much";
  limits = LimitsOf({.processes = 7, .memory_bytes = 123}, 3);
  EXPECT_EQ(limits.processes, 7);
  EXPECT_EQ(limits.memory_bytes, 123);
}

TEST_F(CpuJobTest, ShareUsesRankNumbersOfTheWholeJob) {
  v1::LeaseWorkResponse lease = Modes("hang,hang,exit_5,hang", 4);
  lease.mutable_share()->set_first_rank(1);
  lease.mutable_share()->set_ranks(2);
  lease.mutable_share()->set_workers(3);
  LaunchHooks hooks;
  hooks.exchange.run = [](const std::string&, std::int64_t,
                          const std::vector<std::string>&) -> absl::StatusOr<std::vector<std::string>> {
    return absl::InternalError("nothing is gathered");
  };
  hooks.exchange.cancel = [] {};
  const JobReport report = Run(lease, hooks);
  EXPECT_EQ(report.message, "rank 2: exit status 5: the disk is full");
  EXPECT_EQ(report.log, "rank 2:\nfirst line\nthe disk is full\n\n");
  EXPECT_EQ(Run(lease).failure, v1::FAILURE_KIND_OWN) << "nobody to ask for the other ranks";
}

// GPU jobs on simulated GPUs, with ranks that report what they see.
class GpuJobTest : public testing::Test {
 protected:
  static v1::Job Steps(int ranks) {
    v1::Job job;
    job.set_name("studies/1/trials/1");
    job.set_ranks(ranks);
    job.set_device("cuda");
    job.set_time_limit_s(60);
    job.mutable_train()->set_steps(3);
    job.mutable_train()->mutable_workload()->set_precision("bf16");
    job.mutable_train()->mutable_model()->set_name("answer");
    return job;
  }
  static JobReport Run(const v1::Job& job, const v1::Inventory& inventory, double patience_s = 0) {
    ProcessLauncher launcher(FakeTrainerPath());
    return RunOn(LeaseOf(job), inventory, launcher, {}, patience_s);
  }

  const std::string log_path_ = testing::TempDir() + "/gpu_job_" + std::to_string(getpid()) + ".log";
  const ScopedVariable log_{"AUTOCFG_FAKE_TRAINER_LOG", log_path_};
  // Returns the ranks' log lines in order.
  std::vector<std::string> Lines() const {
    std::ifstream file(log_path_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  ~GpuJobTest() override { std::remove(log_path_.c_str()); }
};

TEST_F(GpuJobTest, EveryRankSeesOneGpu) {
  const FakeGpus fake(EqualGpus(3) + ";" + EqualGpus(1, ",mig=1"));
  // ranks get their own value instead of this one
  const ScopedVariable visible("CUDA_VISIBLE_DEVICES", "2,0,1,3");
  const v1::Inventory inventory = LocalInventory(ListGpus(), 8);
  const JobReport report = Run(Steps(5), inventory);
  ASSERT_EQ(report.outcome, v1::OUTCOME_MEASURED) << report.message;
  EXPECT_EQ(Lines(),
            (std::vector<std::string>{"train bf16 on cuda: rank 0 of 5, CUDA_VISIBLE_DEVICES GPU-0002-c",
                                      "train bf16 on cuda: rank 1 of 5, CUDA_VISIBLE_DEVICES GPU-0000-a",
                                      "train bf16 on cuda: rank 2 of 5, CUDA_VISIBLE_DEVICES GPU-0001-b",
                                      "train bf16 on cuda: rank 3 of 5, CUDA_VISIBLE_DEVICES GPU-0002-c",
                                      "train bf16 on cuda: rank 4 of 5, CUDA_VISIBLE_DEVICES GPU-0000-a"}));
  EXPECT_EQ(report.measurement->ranks_per_device(), 2);
  EXPECT_EQ(report.measurement->device_fingerprint(), "NVIDIA H200, driver 570.86.15");
}

TEST_F(GpuJobTest, WaitsUntilMemoryIsFree) {
  const std::string used = fmt::format(",used={},pid=4321", kFakeGpuBytes / 2);
  {
    const FakeGpus fake(EqualGpus(1, used + ",busy=3"));
    EXPECT_EQ(Run(Steps(1), LocalInventory(ListGpus()), 30).outcome, v1::OUTCOME_MEASURED);
  }
  {
    const FakeGpus fake(EqualGpus(1, fmt::format(",reserved={}", std::int64_t{2} << 30)));
    EXPECT_EQ(Run(Steps(1), LocalInventory(ListGpus())).outcome, v1::OUTCOME_MEASURED)
        << "what the driver keeps back never comes";
  }
  const FakeGpus fake(EqualGpus(2) + used);  // memory in use on the second GPU
  const v1::Inventory inventory = LocalInventory(ListGpus());
  EXPECT_EQ(Run(Steps(1), inventory).outcome, v1::OUTCOME_MEASURED) << "the other GPU is not asked for";
  const JobReport report = Run(Steps(2), inventory, 0.3);
  EXPECT_EQ(report.outcome, v1::OUTCOME_REFUSED);
  EXPECT_EQ(report.message,
            "studies/1/trials/1: GPU 1 (NVIDIA H200): 70.5 GiB of its 141.0 GiB are in use, 69.5 GiB more "
            "than on an idle GPU, by process 4321 (70.5 GiB)");
  EXPECT_FALSE(report.measurement);
  EXPECT_EQ(Lines().size(), 3u) << "nothing ran";
}

TEST_F(GpuJobTest, IsRefusedWithoutGpuOrIfGpuIsGone) {
  v1::Inventory inventory;
  {
    const FakeGpus fake(EqualGpus(2));
    inventory = LocalInventory(ListGpus());
  }
  const FakeGpus fewer(EqualGpus(1));
  const JobReport gone = Run(Steps(2), inventory);
  EXPECT_EQ(gone.outcome, v1::OUTCOME_REFUSED);
  EXPECT_NE(gone.message.find("GPU-0001-b is gone"), std::string::npos) << gone.message;
  const NoGpus none;
  EXPECT_NE(Run(Steps(1), inventory).message.find("no GPU: "), std::string::npos);
  const JobReport cpu = Run(Steps(1), LocalInventory(2));
  EXPECT_EQ(cpu.outcome, v1::OUTCOME_REFUSED);
  EXPECT_NE(cpu.message.find("offers none"), std::string::npos) << cpu.message;
  EXPECT_TRUE(Lines().empty()) << "nothing ran";
}

TEST_F(GpuJobTest, RefusesCpuJobs) {
  const FakeGpus fake(EqualGpus(1));
  v1::Job job = Steps(1);
  job.set_device("cpu");
  EXPECT_EQ(Run(job, LocalInventory(ListGpus())).outcome, v1::OUTCOME_REFUSED);
  ASSERT_EQ(Run(job, LocalInventory(1)).outcome, v1::OUTCOME_MEASURED);
  EXPECT_EQ(Lines(),
            (std::vector<std::string>{"train bf16 on cpu: rank 0 of 1, CUDA_VISIBLE_DEVICES not set"}));
}

}  // namespace
}  // namespace autocfg::worker
