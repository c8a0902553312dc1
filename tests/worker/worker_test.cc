// The worker with a fake coordinator and the real training engine.
#include "worker/program/worker.h"

#include <gtest/gtest.h>

#include "fmt/format.h"
#include "proto/convert/device_convert.h"
#include "proto/convert/spec_convert.h"
#include "search/schedule/program.h"
#include "tests/support/build_paths.h"
#include "tests/support/missing_path.h"
#include "tests/worker/fake_coordinator.h"
#include "worker/machine/inventory.h"

namespace autocfg::worker {
namespace {

v1::Job TrainJob(std::int64_t steps, double time_limit_s = 60) {
  ModelSpec model;
  model.name = "smallest";
  model.layers = 1;
  model.hidden = 16;
  model.heads = 2;
  model.vocab = 64;
  FillDefaults(model, 8);
  const Workload workload{2, 8, *ParsePrecision("fp32")};
  ParallelPlan plan;
  plan.dp = 2;
  v1::Job job;
  job.set_name("studies/1/trials/1");
  job.set_ranks(2);
  job.set_device("cpu");
  job.set_time_limit_s(time_limit_s);
  auto& train = *job.mutable_train();
  *train.mutable_model() = ToProto(model);
  *train.mutable_workload() = ToProto(workload);
  *train.mutable_plan() = ToProto(plan);
  train.set_program_fingerprint(Fingerprint(Lower({model, workload, plan})));
  train.mutable_optimizer()->set_lr(1e-3);
  train.mutable_optimizer()->set_lr_schedule("constant");
  train.mutable_optimizer()->set_beta1(0.9);
  train.mutable_optimizer()->set_beta2(0.95);
  train.mutable_optimizer()->set_adam_eps(1e-8);
  train.mutable_optimizer()->set_clip_norm(1);
  train.set_steps(steps);
  train.set_warmup_steps_untimed(1);
  train.set_seed(1);
  return job;
}

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() : address_(fmt::format("unix:{}/worker_test_{}.sock", testing::TempDir(), getpid())) {
    options_.coordinator.target = address_;
    options_.name = "workers/test";
    options_.trainer_path = BuildPath("bin/autocfg-trainer");
    options_.inventory = LocalInventory(4);
    options_.files.data_dirs = {testing::TempDir()};
  }

  std::unique_ptr<Worker> StartWorker() {
    auto worker = Worker::Start(options_);
    EXPECT_TRUE(worker.ok()) << worker.status();
    return worker.ok() ? *std::move(worker) : nullptr;
  }

  const std::string address_;
  WorkerOptions options_;
};

TEST_F(WorkerTest, RefusesAnInventoryThatNoCoordinatorTakes) {
  while (options_.inventory.ByteSizeLong() <= kMostInventoryBytes)
    options_.inventory.add_gpus()->set_left_out(std::string(1000, 'x'));
  options_.coordinator.target = Missing("unix:/nonexistent/directory/socket");
  const absl::Status status = Worker::Start(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_F(WorkerTest, UnreachableCoordinatorIsUnavailable) {
  options_.coordinator.target = Missing("unix:/nonexistent/directory/socket");
  options_.wait_s = 0.1;
  const auto worker = Worker::Start(options_);
  EXPECT_FALSE(worker.ok());
  EXPECT_NE(worker.status().message().find(Missing("/nonexistent/directory/socket")), std::string::npos)
      << worker.status();
}

TEST_F(WorkerTest, EachStartHasItsOwnBootId) {
  FakeCoordinator coordinator(address_, 10);
  { const auto first = StartWorker(); }
  { const auto second = StartWorker(); }
  const auto registrations = coordinator.registrations();
  ASSERT_EQ(registrations.size(), 2u);
  EXPECT_EQ(registrations[0].worker(), registrations[1].worker());
  EXPECT_NE(registrations[0].boot_id(), registrations[1].boot_id());
  EXPECT_EQ(registrations[0].inventory().slots(), 4);
}

TEST_F(WorkerTest, RunsAJobAndReportsTheMeasurement) {
  FakeCoordinator coordinator(address_, 10);
  const auto worker = StartWorker();
  coordinator.Queue(TrainJob(5));
  const auto report = coordinator.AwaitReport();
  ASSERT_EQ(report.outcome(), v1::OUTCOME_MEASURED) << report.message();
  EXPECT_EQ(report.lease_id(), "lease-1");
  EXPECT_EQ(report.fencing_token(), 1);
  EXPECT_EQ(report.attempt(), 1);
  EXPECT_FALSE(report.request_id().empty());
  EXPECT_EQ(report.measurement().step_time_s_size(), 4) << "one of five steps was untimed";
  EXPECT_GT(report.measurement().median_step_time_s(), 0);
  EXPECT_GT(report.measurement().planned_memory_bytes(), 0);
  EXPECT_EQ(report.measurement().build_id(), options_.inventory.build_id());
  EXPECT_EQ(report.measurement().device_fingerprint(), options_.inventory.device_fingerprint());
}

TEST_F(WorkerTest, RepeatsAReportThatIsNotAnswered) {
  FakeCoordinator coordinator(address_, 10);
  coordinator.FailReports(2);
  const auto worker = StartWorker();
  coordinator.Queue(TrainJob(2));
  EXPECT_EQ(coordinator.AwaitReport().outcome(), v1::OUTCOME_MEASURED);
  EXPECT_EQ(coordinator.report_calls(), 3);
  EXPECT_EQ(coordinator.reports(), 1);
}

TEST_F(WorkerTest, BadInputFailsWithTheRanksMessage) {
  FakeCoordinator coordinator(address_, 10);
  const auto worker = StartWorker();
  auto job = TrainJob(2);
  const std::string missing = testing::TempDir() + "/no_such_data.u16";
  job.mutable_train()->set_data_path(missing);
  coordinator.Queue(job);
  const auto report = coordinator.AwaitReport();
  EXPECT_EQ(report.outcome(), v1::OUTCOME_FAILED);
  EXPECT_NE(report.message().find(missing), std::string::npos) << report.message();
}

TEST_F(WorkerTest, OutOfMemoryIsAValidAnswer) {
  FakeCoordinator coordinator(address_, 10);
  const auto worker = StartWorker();
  auto job = TrainJob(2);
  job.mutable_train()->set_memory_capacity_bytes(1000);
  coordinator.Queue(job);
  EXPECT_EQ(coordinator.AwaitReport().outcome(), v1::OUTCOME_OUT_OF_MEMORY);
}

TEST_F(WorkerTest, TimeLimit) {
  FakeCoordinator coordinator(address_, 10);
  const auto worker = StartWorker();
  coordinator.Queue(TrainJob(1'000'000'000, 0.5));
  EXPECT_EQ(coordinator.AwaitReport().outcome(), v1::OUTCOME_TIMED_OUT);
}

TEST_F(WorkerTest, CancelledByTheCoordinator) {
  FakeCoordinator coordinator(address_, 1.5);
  const auto worker = StartWorker();
  coordinator.Queue(TrainJob(1'000'000'000));
  ASSERT_TRUE(coordinator.AwaitRenewals(1));
  coordinator.Say(v1::LEASE_COMMAND_CANCEL);
  EXPECT_EQ(coordinator.AwaitReport().outcome(), v1::OUTCOME_CANCELLED);
}

TEST_F(WorkerTest, LostLeaseIsNotReportedAndTheNextJobRuns) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker();
  coordinator.RefuseRenewalsOf("lease-1");
  coordinator.Queue(TrainJob(1'000'000'000));
  coordinator.Queue(TrainJob(2));
  const auto report = coordinator.AwaitReport();
  EXPECT_EQ(report.lease_id(), "lease-2");
  EXPECT_EQ(report.outcome(), v1::OUTCOME_MEASURED) << report.message();
}

TEST_F(WorkerTest, StopEndsTheJobWithoutAReport) {
  FakeCoordinator coordinator(address_, 1.5);
  const auto worker = StartWorker();
  coordinator.Queue(TrainJob(1'000'000'000));
  ASSERT_TRUE(coordinator.AwaitRenewals(1));
  worker->Stop();
  EXPECT_TRUE(coordinator.deregistered()) << "that gives the job back to the queue";
  EXPECT_EQ(coordinator.reports(), 0);
  worker->Stop();
}

}  // namespace
}  // namespace autocfg::worker
