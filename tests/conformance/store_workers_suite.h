// Part of the contract of Store: workers, what they hold and how they leave.
#pragma once

#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

TEST_P(StoreSuite, WorkersAreListedByNameWithTheirJobs) {
  const std::int64_t id = NewRunning();
  EXPECT_TRUE(store_->ListWorkers("", 10, true)->empty());
  const WorkerSession b = Join("b", 4, "cpu", "host");
  const WorkerSession a = Join("a", 4, "cuda");
  Join("c", 4);
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}).ok());
  Enqueue(id, "tp=2", 0, 2);
  const Lease calibration = GiveOut({b}).leases.at(0);
  const Lease trial = GiveOut({b}).leases.at(0);
  auto all = *store_->ListWorkers("", 10, false);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].session, a);
  EXPECT_EQ(all[0].ranks_in_use, 0);
  EXPECT_TRUE(all[0].jobs.empty());
  EXPECT_EQ(all[1].session, b);
  EXPECT_EQ(all[1].inventory.hostname(), "host");
  EXPECT_EQ(all[1].inventory.slots(), 4);
  EXPECT_EQ(all[1].registered_s, 100);
  EXPECT_TRUE(all[1].active);
  EXPECT_FALSE(all[1].draining);
  EXPECT_EQ(all[1].ranks_in_use, 3);
  EXPECT_THAT(all[1].jobs, testing::ElementsAre(CalibrationName(id), TrialName(id, 1)));
  ASSERT_TRUE(store_->Report(ReportOf(trial, v1::OUTCOME_MEASURED), 201).ok());
  EXPECT_THAT(store_->GetWorker("workers/b")->jobs, testing::ElementsAre(CalibrationName(id)));

  const auto page = *store_->ListWorkers("workers/a", 1, false);
  ASSERT_EQ(page.size(), 1u);
  EXPECT_EQ(page[0].session, b);
  ASSERT_TRUE(store_->DeregisterWorker("workers/b", b.epoch, 202).ok());
  EXPECT_EQ(store_->ListWorkers("", 10, false)->size(), 2u);
  all = *store_->ListWorkers("", 10, true);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_FALSE(all[1].active);
  EXPECT_EQ(all[1].ranks_in_use, 0);
  EXPECT_FALSE(store_->GetWorker("workers/b")->active);
  EXPECT_EQ(store_->GetWorker("workers/z").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreSuite, LeavingWorkerGetsNoJobThatMayLastLonger) {
  const std::int64_t id = NewRunning();
  const auto enqueue = [&](const char* plan, double limit_s) {
    v1::Trial trial;
    trial.set_plan_text(plan);
    v1::Job job = TrainJob();
    job.set_time_limit_s(limit_s);
    ASSERT_TRUE(store_->EnqueueTrial(id, trial, job, 2).ok());
  };
  const std::int64_t epoch = Register();
  const WorkerSession session{"workers/a", epoch};
  EXPECT_EQ(store_->SetLeaving({"workers/none", 1}, 300).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->SetLeaving({"workers/a", epoch - 1}, 300).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->GetWorker("workers/a")->leaves_s, std::nullopt);
  ASSERT_TRUE(store_->SetLeaving(session, 300).ok());
  EXPECT_THAT(store_->GetWorker("workers/a")->leaves_s, testing::Optional(300.0));
  enqueue("tp=1", 0);
  enqueue("tp=2", 101);
  enqueue("tp=4", 100);
  const auto first = Take(epoch);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->job.name(), TrialName(id, 3)) << "until 300, from 200";
  EXPECT_FALSE(Take(epoch));
  const auto waiting = store_->WaitingStudies({}, {session}, 200);
  ASSERT_TRUE(waiting.ok());
  ASSERT_EQ(waiting->size(), 1u);
  EXPECT_EQ(waiting->at(0).why, WaitingStudy::Why::kNobody);
  EXPECT_THAT(waiting->at(0).sentence, testing::HasSubstr("leaves before its next job must have ended"));
  ASSERT_TRUE(store_->SetLeaving(session, 302).ok());
  EXPECT_EQ(Take(epoch)->job.name(), TrialName(id, 2));
  ASSERT_TRUE(store_->SetLeaving(session, std::nullopt).ok());
  EXPECT_EQ(Take(epoch)->job.name(), TrialName(id, 1)) << "without a limit, on a worker that stays";
  ASSERT_TRUE(store_->SetLeaving(session, 300).ok());
  const std::int64_t newer = Register("workers/a", "boot2");
  EXPECT_EQ(store_->GetWorker("workers/a")->leaves_s, std::nullopt) << "another session has not said so";
  EXPECT_TRUE(Take(newer));
  ASSERT_TRUE(store_->SetLeaving({"workers/a", newer}, 300).ok());
  ASSERT_TRUE(store_->DeregisterWorker("workers/a", newer, 400).ok());
  EXPECT_EQ(store_->GetWorker("workers/a")->leaves_s, std::nullopt);
}

TEST_P(StoreSuite, LeavingWorkerMayCalibrate) {
  const std::int64_t id = NewRunning();
  v1::Job job = CalibrateJob();
  job.set_time_limit_s(86'400);
  ASSERT_TRUE(store_->EnqueueCalibration(id, job, 2, {}).ok());
  const std::int64_t epoch = Register();
  ASSERT_TRUE(store_->SetLeaving({"workers/a", epoch}, 200 + kCalibrationNeedsS - 1).ok());
  EXPECT_FALSE(Take(epoch));
  ASSERT_TRUE(store_->SetLeaving({"workers/a", epoch}, 200 + kCalibrationNeedsS).ok());
  EXPECT_TRUE(Take(epoch)) << "not for all of its limit, which ends one that hangs";
  const std::int64_t limited = NewRunning("g");
  job.mutable_calibrate()->set_limit_s(30);
  ASSERT_TRUE(store_->EnqueueCalibration(limited, job, 2, {}).ok());
  ASSERT_TRUE(store_->SetLeaving({"workers/a", epoch}, 229).ok());
  EXPECT_FALSE(Take(epoch));
  ASSERT_TRUE(store_->SetLeaving({"workers/a", epoch}, 230).ok());
  EXPECT_TRUE(Take(epoch));
}

TEST_P(StoreSuite, DrainingWorkerFinishesItsJobsAndGetsNoMore) {
  const std::int64_t id = NewRunning();
  for (int i = 0; i < 3; ++i) Enqueue(id, fmt::format("mbs={}", i + 1));
  const WorkerSession a = Join("a", 4);
  const Lease lease = GiveOut({a}).leases.at(0);
  int heard = 0;
  store_->OnChange([&](const StoreChange&) { ++heard; });
  EXPECT_EQ(store_->DrainWorker("workers/none", "").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(heard, 0);
  ASSERT_TRUE(store_->DrainWorker("workers/a", "").ok());
  EXPECT_EQ(heard, 1) << "who waits for work or to renew hears of it";
  EXPECT_TRUE(store_->DrainWorker("workers/a", "").ok());
  EXPECT_TRUE(store_->GetWorker("workers/a")->draining);
  EXPECT_EQ(Renew(lease), v1::LEASE_COMMAND_DRAIN);
  EXPECT_TRUE(store_->LeasesToStop()->empty()) << "what it has may end";
  EXPECT_TRUE(GiveOut({a}).leases.empty());
  EXPECT_THAT(Waits({a}), testing::ElementsAre(testing::HasSubstr("is draining")));
  EXPECT_TRUE(store_->Report(ReportOf(lease, v1::OUTCOME_MEASURED), 203).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_MEASURED);
  // A new session under the same boot keeps draining; a new boot does not.
  EXPECT_EQ(Join("a", 4), a);
  EXPECT_TRUE(GiveOut({a}).leases.empty());
  const WorkerSession next = Join("a", 4, "cpu", "", "boot2");
  EXPECT_FALSE(store_->GetWorker("workers/a")->draining);
  const Lease second = GiveOut({next}).leases.at(0);
  EXPECT_EQ(Renew(second), v1::LEASE_COMMAND_CONTINUE);
  // Cancelling takes precedence over draining.
  ASSERT_TRUE(store_->DrainWorker("workers/a", "").ok());
  ASSERT_TRUE(store_->CancelJobs(id).ok());
  EXPECT_EQ(Renew(second), v1::LEASE_COMMAND_CANCEL);
  ASSERT_TRUE(store_->DeregisterWorker("workers/a", next.epoch, 206).ok());
  EXPECT_EQ(store_->DrainWorker("workers/a", "").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreSuite, DrainIsIdempotentByRequestId) {
  Join("a", 4);
  Join("b", 4);
  EXPECT_TRUE(*store_->DrainWorker("workers/a", "d"));
  EXPECT_TRUE(*store_->DrainWorker("workers/a", "d"));
  EXPECT_EQ(store_->DrainWorker("workers/b", "d").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(store_->GetWorker("workers/b")->draining);
  // A restarted worker is not drained by the earlier request.
  const WorkerSession next = Join("a", 4, "cpu", "", "boot2");
  EXPECT_FALSE(*store_->DrainWorker("workers/a", "d"));
  EXPECT_FALSE(store_->GetWorker("workers/a")->draining);
  ASSERT_TRUE(store_->DeregisterWorker("workers/a", next.epoch, 205).ok());
  EXPECT_FALSE(*store_->DrainWorker("workers/a", "d"));
  const absl::Status gone = store_->DrainWorker("workers/a", "e").status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(gone.message()), testing::HasSubstr("has deregistered"));
  // A request id used by a study is taken.
  NewStudy("f", "s");
  EXPECT_EQ(store_->DrainWorker("workers/b", "s").status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_P(StoreSuite, UndeliveredLeaseCostsNoAttempt) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1", 0, 1, /*max_attempts=*/1);
  const WorkerSession a = Join("a", 4);
  for (int i = 1; i <= 3; ++i) {
    const Lease lease = GiveOut({a}).leases.at(0);
    EXPECT_EQ(lease.attempt, i);
    ASSERT_TRUE(store_->ReturnLease(lease.lease_id, lease.fencing_token + 1, 205).ok());
    ASSERT_TRUE(store_->ReturnLease("lease-none", lease.fencing_token, 205).ok());
    EXPECT_TRUE(Held(lease)) << "nothing that is not this lease is returned";
    ASSERT_TRUE(store_->ReturnLease(lease.lease_id, lease.fencing_token, 205).ok());
    EXPECT_FALSE(Held(lease));
    EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
    EXPECT_EQ(store_->Report(ReportOf(lease, v1::OUTCOME_MEASURED), 206).code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(store_->Usage(id)->device_s, 0);
  const Lease lease = GiveOut({a}).leases.at(0);
  ASSERT_TRUE(store_->Report(ReportOf(lease, v1::OUTCOME_MEASURED), 207).ok());
  ASSERT_TRUE(store_->ReturnLease(lease.lease_id, lease.fencing_token, 208).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_MEASURED);
}

TEST_P(StoreSuite, LeasesUnknownToTheWorkerAreRequeued) {
  const std::int64_t id = NewRunning();
  for (int i = 0; i < 3; ++i) Enqueue(id, fmt::format("mbs={}", i + 1), 0, 1, /*max_attempts=*/1);
  const WorkerSession a = Join("a", 4);
  const WorkerSession b = Join("b", 4);
  const Lease known = GiveOut({a}).leases.at(0);
  const Lease lost = GiveOut({a}).leases.at(0);
  const Lease theirs = GiveOut({b}).leases.at(0);
  int heard = 0;
  store_->OnChange([&](const StoreChange&) { ++heard; });
  ASSERT_TRUE(store_->KeepOnly(a, {known.lease_id, lost.lease_id, "lease-none"}, 201).ok());
  ASSERT_TRUE(store_->KeepOnly({a.worker, a.epoch + 1}, {}, 201).ok());
  EXPECT_EQ(heard, 0);
  ASSERT_TRUE(store_->KeepOnly(a, {known.lease_id}, 201).ok());
  EXPECT_EQ(heard, 1);
  EXPECT_TRUE(Held(known) && Held(theirs));
  EXPECT_FALSE(Held(lost));
  EXPECT_EQ(Trial(id, 2).state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(GiveOut({a}).leases.at(0).key.trial, 2);
}

TEST_P(StoreSuite, ExpiryAndAReportExcludeEachOther) {
  const WorkerSession a = Join("a", 1);
  int reported = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t id = NewRunning(fmt::format("f{}", round));
    Enqueue(id, "tp=1");
    const Lease lease = GiveOut({a}).leases.at(0);
    absl::Status report;
    absl::StatusOr<std::vector<EndedLease>> expired;
    std::thread reporter([&] { report = store_->Report(ReportOf(lease, v1::OUTCOME_MEASURED), 300); });
    std::thread expirer([&] { expired = store_->ExpireLeases(300); });
    reporter.join();
    expirer.join();
    ASSERT_TRUE(expired.ok()) << expired.status();
    if (report.ok()) {
      ++reported;
      EXPECT_EQ(expired->size(), 0u);
      EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_MEASURED);
    } else {
      EXPECT_EQ(report.code(), absl::StatusCode::kFailedPrecondition) << report;
      EXPECT_EQ(expired->size(), 1u);
      EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
      EXPECT_FALSE(Trial(id, 1).has_measured());
    }
    EXPECT_EQ(Trial(id, 1).attempts_size(), 1);
    SetState(id, v1::STUDY_STATE_DONE);
  }
  EXPECT_EQ(Rejected(), kRounds - reported);
}

}  // namespace autocfg::server
