// A worker with several jobs and with other workers, with a fake coordinator and scripted ranks
// (tests/worker/fake_trainer.cc).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "proto/rpc/channel.h"
#include "tests/cli/program.h"
#include "tests/worker/fake_coordinator.h"
#include "tests/worker/launch_helpers.h"
#include "worker/jobs/worker_calls.h"
#include "worker/machine/inventory.h"
#include "worker/program/worker.h"

namespace autocfg::worker {
namespace {

v1::Job JobOf(const std::string& modes, int ranks = 1) {
  v1::Job job;
  job.set_name("studies/1/trials/1");
  job.set_ranks(ranks);
  job.set_device("cpu");
  job.set_time_limit_s(120);
  job.mutable_train()->mutable_model()->set_name(modes);
  job.mutable_train()->set_steps(1);
  return job;
}

// A share with ranks [first, first + ranks) of the job.
v1::LeaseWorkResponse ShareOf(const v1::Job& job, int first, int ranks) {
  v1::LeaseWorkResponse lease;
  *lease.mutable_job() = job;
  lease.mutable_share()->set_first_rank(first);
  lease.mutable_share()->set_ranks(ranks);
  lease.mutable_share()->set_workers(2);
  lease.mutable_share()->set_barrier_s(60);
  return lease;
}

class WorkerJobsTest : public testing::Test {
 protected:
  WorkerJobsTest() : address_("unix:" + (directory_ / "socket")) {}

  std::unique_ptr<Worker> StartWorker(int slots, const std::string& name = "workers/a",
                                      std::vector<int> cores = {0}) {
    WorkerOptions options;
    options.coordinator.target = address_;
    options.name = name;
    options.trainer_path = FakeTrainerPath();
    options.inventory = LocalInventory(slots);
    options.files = {.data_dirs = {directory_.path()}, .save_dirs = {}};
    options.cores = std::move(cores);
    options.wait_s = 60;
    auto worker = Worker::Start(options);
    EXPECT_TRUE(worker.ok()) << worker.status();
    return worker.ok() ? *std::move(worker) : nullptr;
  }

  // A job that ends normally once Release is called.
  v1::Job Waiting(const std::string& name = "go") {
    v1::Job job = JobOf("await_file");
    job.mutable_train()->set_init_path(directory_ / name);
    return job;
  }
  void Release(const std::string& name = "go") { directory_.Write(name, ""); }

  // Waits until this test's ranks are pinned to `count` cores; returns the cores from their arguments.
  static std::multiset<std::string> CoresOfRanks(std::size_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      std::multiset<std::string> cores;
      for (const pid_t pid : Descendants(getpid())) {
        const std::string line = ReadWhole("/proc/" + std::to_string(pid) + "/cmdline");
        const auto at = line.find("--cpu-list=");
        if (at != std::string::npos) cores.insert(line.substr(at + 11, line.find('\0', at) - at - 11));
      }
      if (cores.size() == count || std::chrono::steady_clock::now() > end) return cores;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  const ScratchDirectory directory_;
  const std::string address_;
};

TEST_F(WorkerJobsTest, ConcurrentJobsUseSeparateSlots) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(3, "workers/a", {11, 12, 13});
  coordinator.Queue(Waiting("first"));
  v1::Job two = Waiting("second");
  two.set_ranks(2);
  coordinator.Queue(two);
  EXPECT_EQ(CoresOfRanks(3), (std::multiset<std::string>{"11", "12", "13"}));
  ASSERT_TRUE(coordinator.AwaitPollWith({"lease-1", "lease-2"}))
      << "a call for work is parked though all slots are taken";
  EXPECT_EQ(coordinator.most_parked_polls(), 1);
  Release("first");
  EXPECT_EQ(coordinator.AwaitReport(0).lease_id(), "lease-1");
  coordinator.Queue(Waiting("second"));
  EXPECT_EQ(CoresOfRanks(3), (std::multiset<std::string>{"11", "12", "13"})) << "the slot that is free again";
  ASSERT_TRUE(coordinator.AwaitPollWith({"lease-2", "lease-3"}))
      << "what has been reported is not held any more";
  Release("second");
  EXPECT_EQ(coordinator.AwaitReport(1).outcome(), v1::OUTCOME_MEASURED);
  EXPECT_EQ(coordinator.AwaitReport(2).outcome(), v1::OUTCOME_MEASURED);
  EXPECT_EQ(coordinator.most_parked_polls(), 1);
}

TEST_F(WorkerJobsTest, JobWaitsForSlotsOfAnEndingJob) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(1);
  coordinator.Queue(Waiting("first"));
  ASSERT_EQ(CoresOfRanks(1).size(), 1u);
  coordinator.Queue(Waiting("second"));  // the coordinator considers the first lease lost
  ASSERT_TRUE(coordinator.AwaitPollWith({"lease-1", "lease-2"}));
  EXPECT_EQ(CoresOfRanks(1).size(), 1u);
  Release("first");
  Release("second");
  EXPECT_EQ(coordinator.AwaitReport(0).lease_id(), "lease-1");
  EXPECT_EQ(coordinator.AwaitReport(1).outcome(), v1::OUTCOME_MEASURED);
}

TEST_F(WorkerJobsTest, ResultRejectedAsInvalidIsReportedAsRetryableFailure) {
  FakeCoordinator coordinator(address_, 60);
  coordinator.RejectResults("measurement.step_time_s has 1 times, but the job times 4 steps");
  const auto worker = StartWorker(1);
  coordinator.Queue(JobOf("ok"));
  const v1::ReportTrialRequest report = coordinator.AwaitReport();
  EXPECT_EQ(report.outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(report.failure(), v1::FAILURE_KIND_PROCESS);
  EXPECT_FALSE(report.has_measurement());
  EXPECT_EQ(report.lease_id(), "lease-1");
  EXPECT_EQ(report.request_id(), "lease-1/rejected") << "that of the result is the result's";
  EXPECT_EQ(
      report.message(),
      "the coordinator rejected the result: measurement.step_time_s has 1 times, but the job times 4 steps");
  EXPECT_EQ(coordinator.report_calls(), 2);
  // The worker continues with the next job.
  coordinator.RejectResults("");
  coordinator.Queue(JobOf("ok"));
  EXPECT_EQ(coordinator.AwaitReport(1).outcome(), v1::OUTCOME_MEASURED);
}

TEST_F(WorkerJobsTest, ReportIsRetriedIfItCannotBeStored) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(1);
  std::size_t reports = 0;
  for (const auto code :
       {grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::PERMISSION_DENIED,
        grpc::StatusCode::DATA_LOSS, grpc::StatusCode::INTERNAL, grpc::StatusCode::UNAUTHENTICATED}) {
    coordinator.FailReports(2, code);
    coordinator.Queue(JobOf("ok"));
    EXPECT_EQ(coordinator.AwaitReport(reports++).outcome(), v1::OUTCOME_MEASURED) << code;
    EXPECT_EQ(coordinator.report_calls(), static_cast<int>(3 * reports)) << code;
  }
}

TEST_F(WorkerJobsTest, ReportIsAbandonedWithItsLease) {
  FakeCoordinator coordinator(address_, 0.3);
  coordinator.FailReports(1'000'000, grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto worker = StartWorker(1);
  coordinator.Queue(JobOf("ok"));
  ASSERT_TRUE(coordinator.AwaitReportCalls(2));
  coordinator.RefuseRenewalsOf("lease-1");
  coordinator.Drain();
  EXPECT_TRUE(worker->WaitUntilEnded().ok()) << "nothing is left to be sent";
  EXPECT_EQ(coordinator.reports(), 0);
}

TEST_F(WorkerJobsTest, OversizedReportIsInvalid) {
  FakeCoordinator coordinator(address_, 60);
  const auto channel = OpenChannel({.target = address_}, false);
  ASSERT_TRUE(channel.ok()) << channel.status();
  v1::ReportTrialRequest report;
  report.set_message(std::string(static_cast<std::size_t>(kMaxSentBytes), 'a'));
  CallGroup group;
  const absl::Status status = WorkerCalls(*channel, "workers/a").ReportTrial(report, group);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_FALSE(MayPass(status));
  EXPECT_EQ(coordinator.report_calls(), 0);
}

TEST_F(WorkerJobsTest, JobThatNamesFilesElsewhereIsRefused) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(1);
  v1::Job job = JobOf("ok");
  job.mutable_train()->set_save_path(directory_ / "weights");  // data may be read there, and nothing written
  coordinator.Queue(job);
  const auto report = coordinator.AwaitReport();
  EXPECT_EQ(report.outcome(), v1::OUTCOME_REFUSED) << "another worker may allow it";
  EXPECT_EQ(report.message(),
            "studies/1/trials/1: save_path '" + (directory_ / "weights") +
                "' names a file, and this worker allows none; start it with --save-dir DIR");
}

TEST_F(WorkerJobsTest, MoreRanksThanSlotsFailsImmediately) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(1);
  coordinator.Queue(JobOf("ok", 2));
  const auto report = coordinator.AwaitReport();
  EXPECT_EQ(report.outcome(), v1::OUTCOME_FAILED);
  EXPECT_NE(report.message().find("this worker has 1 slots"), std::string::npos) << report.message();
}

TEST_F(WorkerJobsTest, ParkedRenewalReceivesCancellationImmediately) {
  FakeCoordinator coordinator(address_, 3600);
  const auto worker = StartWorker(1);
  coordinator.Queue(JobOf("hang"));
  ASSERT_TRUE(coordinator.AwaitRenewals(1));
  EXPECT_EQ(coordinator.last_renewal_wait_s(), 1200);
  coordinator.Say(v1::LEASE_COMMAND_CANCEL);
  EXPECT_EQ(coordinator.AwaitReport().outcome(), v1::OUTCOME_CANCELLED)
      << "long before the next renewal is due";
  EXPECT_EQ(coordinator.renewals(), 1);
}

TEST_F(WorkerJobsTest, DrainFinishesJobsAndDeregisters) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(2);
  coordinator.Queue(Waiting());
  ASSERT_TRUE(coordinator.AwaitPollWith({"lease-1"}));
  coordinator.Drain();
  coordinator.Queue(JobOf("ok"));
  Release();
  EXPECT_TRUE(worker->WaitUntilEnded().ok());
  EXPECT_TRUE(coordinator.deregistered());
  ASSERT_EQ(coordinator.reports(), 1) << "no more work";
  EXPECT_EQ(coordinator.AwaitReport().outcome(), v1::OUTCOME_MEASURED);
}

TEST_F(WorkerJobsTest, RenewalCanRequestDrain) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(1);
  coordinator.Queue(Waiting());
  ASSERT_TRUE(coordinator.AwaitRenewals(1));
  coordinator.Say(v1::LEASE_COMMAND_DRAIN);
  ASSERT_TRUE(coordinator.AwaitRenewals(2));
  Release();
  EXPECT_TRUE(worker->WaitUntilEnded().ok());
  EXPECT_TRUE(coordinator.deregistered());
  EXPECT_EQ(coordinator.AwaitReport().outcome(), v1::OUTCOME_MEASURED);
}

TEST_F(WorkerJobsTest, RegistersAgainWithACoordinatorThatForgotIt) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(1);
  coordinator.Queue(JobOf("hang"));
  ASSERT_EQ(CoresOfRanks(1).size(), 1u);
  const std::vector<pid_t> ranks = RanksOf(getpid());
  coordinator.ForgetWorkers();
  ASSERT_TRUE(coordinator.AwaitRegistrations(2));
  EXPECT_EQ(coordinator.registrations()[0].boot_id(), coordinator.registrations()[1].boot_id());
  EXPECT_TRUE(AllEnd(ranks, std::chrono::seconds(60))) << "what it held is lost";
  ASSERT_TRUE(coordinator.AwaitPollWith({}));
  coordinator.Queue(JobOf("ok"));
  const auto report = coordinator.AwaitReport();
  EXPECT_EQ(report.lease_id(), "lease-2");
  EXPECT_EQ(report.session_epoch(), 2);
  EXPECT_EQ(report.outcome(), v1::OUTCOME_MEASURED);
}

TEST_F(WorkerJobsTest, SupersededWorkerEndsItsJobsAndReportsWhy) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(1);
  coordinator.Queue(JobOf("hang"));
  ASSERT_EQ(CoresOfRanks(1).size(), 1u);
  const std::vector<pid_t> ranks = RanksOf(getpid());
  coordinator.Supersede("workers/a");
  EXPECT_TRUE(absl::IsFailedPrecondition(worker->WaitUntilEnded()));
  EXPECT_TRUE(AllEnd(ranks, std::chrono::seconds(60)));
  EXPECT_FALSE(coordinator.deregistered()) << "the name is the other's";
  EXPECT_EQ(coordinator.reports(), 0);
}

TEST_F(WorkerJobsTest, CoordinatorOutageDoesNotStopJobs) {
  auto coordinator = std::make_unique<FakeCoordinator>(address_, 60);
  const auto worker = StartWorker(1);
  coordinator->Queue(Waiting());
  ASSERT_EQ(CoresOfRanks(1).size(), 1u);
  const std::vector<pid_t> ranks = RanksOf(getpid());
  const FakeCoordinator::Sessions sessions = coordinator->sessions();
  coordinator = nullptr;
  Release();
  EXPECT_TRUE(AllEnd(ranks, std::chrono::seconds(60))) << "the job goes on to its end, with nobody to tell";
  FakeCoordinator next(address_, 60, sessions);
  const auto report = next.AwaitReport();
  EXPECT_EQ(report.lease_id(), "lease-1");
  EXPECT_EQ(report.outcome(), v1::OUTCOME_MEASURED);
}

// The next coordinator may still hold the lease.
TEST_F(WorkerJobsTest, OutageOfSeveralLeaseDurationsDoesNotStopJobs) {
  constexpr double kLeaseSeconds = 0.2;
  auto coordinator = std::make_unique<FakeCoordinator>(address_, kLeaseSeconds);
  const auto worker = StartWorker(1);
  coordinator->Queue(Waiting());
  ASSERT_EQ(CoresOfRanks(1).size(), 1u);
  const FakeCoordinator::Sessions sessions = coordinator->sessions();
  coordinator = nullptr;
  std::this_thread::sleep_for(std::chrono::duration<double>(3 * kLeaseSeconds));
  EXPECT_EQ(CoresOfRanks(1).size(), 1u) << "its rank runs on";
  FakeCoordinator next(address_, kLeaseSeconds, sessions);
  ASSERT_TRUE(next.AwaitPollWith({"lease-1"})) << "it says what it holds";
  Release();
  const auto report = next.AwaitReport();
  EXPECT_EQ(report.lease_id(), "lease-1");
  EXPECT_EQ(report.outcome(), v1::OUTCOME_MEASURED);
}

TEST_F(WorkerJobsTest, SendsLogTailsOfFailedRanks) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(2);
  coordinator.Queue(JobOf("hang,exit_5", 2));
  const auto report = coordinator.AwaitReport();
  EXPECT_EQ(report.outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(report.failure(), v1::FAILURE_KIND_PROCESS);
  EXPECT_EQ(report.message(), "rank 1: exit status 5: the disk is full");
  const auto logs = coordinator.logs();
  ASSERT_EQ(logs.size(), 1u);
  EXPECT_EQ(logs[0].lease_id(), "lease-1");
  EXPECT_EQ(logs[0].fencing_token(), 1);
  EXPECT_EQ(logs[0].text(), "rank 1:\nfirst line\nthe disk is full\n\n");
}

TEST_F(WorkerJobsTest, RankThatSendsTooMuchEndsItsJobAlone) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(2);
  coordinator.Queue(Waiting());
  coordinator.Queue(JobOf("huge_message"));
  const auto report = coordinator.AwaitReport(0);
  EXPECT_EQ(report.outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(report.failure(), v1::FAILURE_KIND_OWN);
  EXPECT_EQ(
      report.message(),
      "rank 0: its messages are invalid: a message of 200000000 bytes was announced, above the limit of "
      "65536");
  Release();
  EXPECT_EQ(coordinator.AwaitReport(1).outcome(), v1::OUTCOME_MEASURED) << "the worker goes on";
}

TEST_F(WorkerJobsTest, SlotsAreFreeOnceDaemonsHaveEnded) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(1);
  coordinator.Queue(JobOf("daemon"));
  EXPECT_EQ(coordinator.AwaitReport().outcome(), v1::OUTCOME_MEASURED);
  EXPECT_EQ(RanksOf(getpid()), std::vector<pid_t>()) << "a process outlives its job";
}

TEST_F(WorkerJobsTest, TwoWorkersRunOneJob) {
  FakeCoordinator coordinator(address_, 60);
  const auto first = StartWorker(2, "workers/a");
  const auto second = StartWorker(1, "workers/b");
  const v1::Job job = JobOf("gather", 3);  // 50 rounds; each rank checks the values of all
  coordinator.Queue(ShareOf(job, 0, 2), "workers/a");
  coordinator.Queue(ShareOf(job, 2, 1), "workers/b");
  const double everybodys_bytes = 49 * (1 + 2 + 3) + 3.0 * 60'000;
  for (const auto& [worker, ranks] : {std::pair{"workers/a", 2}, std::pair{"workers/b", 1}}) {
    const auto report = coordinator.AwaitReportOf(worker);
    ASSERT_EQ(report.outcome(), v1::OUTCOME_MEASURED) << report.message();
    EXPECT_EQ(report.measurement().first_loss(), everybodys_bytes);
    EXPECT_EQ(report.measurement().ranks_per_core(), ranks) << "of its own ranks, on one core";
  }
}

TEST_F(WorkerJobsTest, FailedShareIsAPeerFailureElsewhere) {
  FakeCoordinator coordinator(address_, 60);
  const auto first = StartWorker(2, "workers/a");
  const auto second = StartWorker(2, "workers/b");
  const v1::Job job = JobOf("gather,gather,gather,kill", 4);
  coordinator.Queue(ShareOf(job, 0, 2), "workers/a");
  coordinator.Queue(ShareOf(job, 2, 2), "workers/b");
  const auto own = coordinator.AwaitReportOf("workers/b");
  EXPECT_EQ(own.outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(own.failure(), v1::FAILURE_KIND_PROCESS);
  EXPECT_NE(own.message().find("rank 3: killed by signal 9"), std::string::npos) << own.message();
  coordinator.AbortRendezvous();
  const auto peer = coordinator.AwaitReportOf("workers/a");
  EXPECT_EQ(peer.outcome(), v1::OUTCOME_FAILED);
  EXPECT_EQ(peer.failure(), v1::FAILURE_KIND_PEER);
  EXPECT_EQ(peer.message(),
            "the gathering of 'round 0' with the job's other workers: the job is being stopped");
}

TEST_F(WorkerJobsTest, OwnFailureIsNotHiddenByPeerFailures) {
  FakeCoordinator coordinator(address_, 60);
  const auto worker = StartWorker(2, "workers/a");
  coordinator.AbortRendezvous();
  coordinator.Queue(ShareOf(JobOf("unavailable,internal_late,gather", 3), 0, 2), "workers/a");
  const auto report = coordinator.AwaitReport();
  EXPECT_EQ(report.failure(), v1::FAILURE_KIND_OWN);
  EXPECT_EQ(report.message(), "rank 1: the cause");
}

TEST_F(WorkerJobsTest, MismatchedGatheringIsAnOwnFailure) {
  FakeCoordinator coordinator(address_, 60);
  const auto first = StartWorker(1, "workers/a");
  const auto second = StartWorker(1, "workers/b");
  const v1::Job job = JobOf("gather_name,gather_other_name", 2);
  coordinator.Queue(ShareOf(job, 0, 1), "workers/a");
  coordinator.Queue(ShareOf(job, 1, 1), "workers/b");
  const auto refused = coordinator.AwaitReport();
  EXPECT_EQ(refused.failure(), v1::FAILURE_KIND_OWN);
  EXPECT_NE(refused.message().find("is gathered where others gather"), std::string::npos)
      << refused.message();
}

TEST_F(WorkerJobsTest, StopEndsAWaitingGathering) {
  FakeCoordinator coordinator(address_, 3600);
  const auto worker = StartWorker(1, "workers/a");
  coordinator.Queue(ShareOf(JobOf("gather", 2), 0, 1), "workers/a");
  ASSERT_EQ(CoresOfRanks(1).size(), 1u);
  const std::vector<pid_t> ranks = RanksOf(getpid());
  worker->Stop();
  EXPECT_TRUE(AllEnd(ranks, std::chrono::seconds(60)));
  EXPECT_TRUE(coordinator.deregistered());
  EXPECT_EQ(coordinator.reports(), 0);
}

}  // namespace
}  // namespace autocfg::worker
