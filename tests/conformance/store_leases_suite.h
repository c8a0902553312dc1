// Part of the contract of Store: the queue as one worker sees it, and leases that end.
#pragma once

#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

TEST_P(StoreSuite, LeasesJobsOfRunningStudiesThatFit) {
  const std::int64_t created = Id(NewStudy());
  Enqueue(created, "tp=1");
  const std::int64_t a = NewRunning();
  const std::int64_t b = NewRunning();
  Enqueue(a, "tp=8", 0, 8);
  ASSERT_TRUE(store_->EnqueueCalibration(b, CalibrateJob(), 2, {}).ok());
  ASSERT_TRUE(store_->EnqueueCalibration(b, CalibrateJob(), 2, {}).ok());
  Enqueue(a, "tp=1");
  const std::int64_t epoch = Register("workers/a", "b", 4);
  auto first = Take(epoch);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->key.study, a);
  EXPECT_EQ(first->job.name(), TrialName(a, 2));
  auto second = Take(epoch);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->job.name(), CalibrationName(b));
  EXPECT_EQ(second->key.trial, 0);
  EXPECT_TRUE(second->job.has_calibrate());
  EXPECT_EQ(second->job.attempt(), 1);
  EXPECT_EQ(second->expires_s, 210);
  EXPECT_FALSE(Take(epoch));
  SetState(created, v1::STUDY_STATE_RUNNING);
  EXPECT_EQ(Take(epoch)->key.study, created);
}

TEST_P(StoreSuite, WorkerHoldsNoMoreRanksThanSlots) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=2", 0, 2);
  Enqueue(id, "tp=4", 0, 4);
  const std::int64_t epoch = Register("workers/a", "b", 4);
  const auto first = Take(epoch);
  ASSERT_TRUE(first);
  EXPECT_FALSE(Take(epoch));
  ASSERT_TRUE(store_->Report(Measured(*first, epoch, "r"), 201).ok());
  EXPECT_EQ(Take(epoch)->job.ranks(), 4);
}

TEST_P(StoreSuite, PausedStudiesAreNotLeased) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  SetState(id, v1::STUDY_STATE_PAUSED);
  const std::int64_t epoch = Register();
  EXPECT_FALSE(Take(epoch));
  SetState(id, v1::STUDY_STATE_RUNNING);
  EXPECT_TRUE(Take(epoch));
}

TEST_P(StoreSuite, LeasingNeedsTheCurrentSession) {
  Enqueue(NewRunning(), "tp=1");
  const auto check = [&](const std::string& worker, std::int64_t epoch) {
    return store_->CheckSession({worker, epoch}).code();
  };
  EXPECT_EQ(check("workers/none", 1), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Take(1, "workers/none"));
  const std::int64_t old = Register();
  EXPECT_EQ(Register(), old);
  EXPECT_EQ(check("workers/a", old), absl::StatusCode::kOk);
  const std::int64_t epoch = Register("workers/a", "boot2");
  EXPECT_GT(epoch, old);
  EXPECT_EQ(check("workers/a", old), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Take(old));
  EXPECT_EQ(check("workers/a", epoch + 1), absl::StatusCode::kNotFound)
      << "this store is a copy from before that session";
  EXPECT_TRUE(store_->DeregisterWorker("workers/a", epoch, 1).ok());
  EXPECT_EQ(check("workers/a", epoch), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Take(epoch));
  EXPECT_TRUE(store_->DeregisterWorker("workers/a", epoch, 1).ok()) << "the retry of one that left";
  EXPECT_EQ(store_->DeregisterWorker("workers/a", old, 1).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->DeregisterWorker("workers/none", 1, 1).code(), absl::StatusCode::kNotFound);
  const std::int64_t next = Register("workers/a", "boot2");
  EXPECT_GT(next, epoch);
  EXPECT_TRUE(Take(next));
}

TEST_P(StoreSuite, EachJobIsLeasedOnceAndTokensIncrease) {
  const std::int64_t id = NewRunning();
  constexpr int kJobs = 60;
  constexpr int kWorkers = 4;
  for (int i = 0; i < kJobs; ++i) Enqueue(id, fmt::format("mbs={}", i + 1));
  std::vector<std::int64_t> epochs;
  for (int w = 0; w < kWorkers; ++w) epochs.push_back(Register(fmt::format("workers/{}", w), "b", kJobs));
  std::vector<std::vector<Lease>> taken(kWorkers);
  std::vector<std::thread> threads;
  for (int w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      while (true) {
        const auto lease = Take(epochs[static_cast<std::size_t>(w)], fmt::format("workers/{}", w));
        if (!lease) break;
        taken[static_cast<std::size_t>(w)].push_back(*lease);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> trials, tokens;
  std::set<std::string> ids;
  for (const auto& leases : taken) {
    std::int64_t last = 0;
    for (const Lease& lease : leases) {
      EXPECT_GT(lease.fencing_token, last);
      last = lease.fencing_token;
      trials.insert(lease.key.trial);
      tokens.insert(lease.fencing_token);
      ids.insert(lease.lease_id);
    }
  }
  EXPECT_EQ(trials.size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(tokens.size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(kJobs));
}

TEST_P(StoreSuite, FencingTokensIncreaseAcrossDeletedStudies) {
  const std::int64_t a = NewRunning();
  Enqueue(a, "tp=1");
  const std::int64_t epoch = Register();
  const std::int64_t token = Take(epoch)->fencing_token;
  SetState(a, v1::STUDY_STATE_CANCELLED);
  ASSERT_TRUE(store_->DeleteStudy(a).ok());
  Enqueue(NewRunning(), "tp=1");
  EXPECT_GT(Take(epoch)->fencing_token, token);
}

TEST_P(StoreSuite, RenewalKeepsALease) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);  // until 210
  auto command = store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token, 209, 10);
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(*command, v1::LEASE_COMMAND_CONTINUE);
  EXPECT_EQ(store_->ExpireLeases(218.9)->size(), 0u);
  EXPECT_EQ(store_->ExpireLeases(219)->size(), 1u);
  EXPECT_EQ(
      store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token, 219, 10).status().code(),
      absl::StatusCode::kFailedPrecondition);
}

// Clocks of two coordinators may differ by any amount; no worker could renew while none ran.
TEST_P(StoreSuite, GrantingAnewGivesEachLeaseItsDurationFromNow) {
  for (const double now : {100'000.0, 5.0}) {  // the clock was stepped forward, or back
    const std::int64_t id = NewRunning();
    Enqueue(id, "tp=1");
    Enqueue(id, "tp=1,mbs=2");
    const WorkerSession a = Join(fmt::format("a{}", now), 4);
    const Lease lease = GiveOut({a}).leases.at(0), reported = GiveOut({a}).leases.at(0);
    ASSERT_TRUE(store_->Report(ReportOf(reported, v1::OUTCOME_MEASURED), 201).ok());
    EXPECT_EQ(*store_->GrantAnew(now, 10), 1) << "the held ones";
    EXPECT_EQ(store_->ExpireLeases(now + 9.9)->size(), 0u);
    EXPECT_TRUE(Held(lease));
    EXPECT_EQ(store_->ExpireLeases(now + 10)->size(), 1u);
    EXPECT_FALSE(Held(lease));
    EXPECT_EQ(*store_->GrantAnew(now, 10), 0);
  }
}

TEST_P(StoreSuite, GrantingAnewKeepsWhatIsLeftOfTheTimeLimit) {
  const std::int64_t id = NewRunning();
  v1::Job job = TrainJob();
  job.set_time_limit_s(30);
  EnqueueJob(id, "tp=1", job);
  const Lease lease = GiveOut({Join("a", 1)}).leases.at(0);  // at 200: until 210, with renewals until 350
  double now = 9000;                                         // until 9010, with renewals until 9150
  ASSERT_EQ(*store_->GrantAnew(now, 10), 1);
  for (; now < 9149; now += 5) EXPECT_EQ(Renew(lease, now), v1::LEASE_COMMAND_CONTINUE) << now;
  EXPECT_EQ(store_->ExpireLeases(9149.9)->size(), 0u);
  ASSERT_EQ(*store_->GrantAnew(50, 10), 1);  // back: nothing beyond its duration is left
  EXPECT_EQ(Renew(lease, 59), v1::LEASE_COMMAND_CONTINUE);
  EXPECT_EQ(store_->ExpireLeases(59.9)->size(), 0u);
  EXPECT_EQ(store_->ExpireLeases(60)->size(), 1u);
}

TEST_P(StoreSuite, GrantingAnewCountsRenewalsThatAreNotStoredYet) {
  const std::int64_t id = NewRunning();
  v1::Job job = TrainJob();
  job.set_time_limit_s(30);
  EnqueueJob(id, "tp=1", job);
  const Lease lease = GiveOut({Join("a", 1)}).leases.at(0);  // at 200: until 210, with renewals until 350
  EXPECT_EQ(Renew(lease, 205), v1::LEASE_COMMAND_CONTINUE);
  EXPECT_EQ(Renew(lease, 209), v1::LEASE_COMMAND_CONTINUE);  // until 219: 131 s are left
  ASSERT_EQ(*store_->GrantAnew(300, 10), 1);                 // until 310, with renewals until 441
  EXPECT_EQ(store_->ExpireLeases(309.9)->size(), 0u);
  double now = 309;
  for (; now < 440; now += 5) EXPECT_EQ(Renew(lease, now), v1::LEASE_COMMAND_CONTINUE) << now;
  EXPECT_EQ(store_->ExpireLeases(440.9)->size(), 0u);
  EXPECT_EQ(store_->ExpireLeases(441)->size(), 1u);
}

TEST_P(StoreSuite, EveryRenewalCountsHoweverRarelyLeasesExpire) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  Enqueue(id, "tp=2");
  const Lease renewed = GiveOut({Join("a", 1)}).leases.at(0), silent = GiveOut({Join("b", 2)}).leases.at(0);
  for (double now = 203; now < 240; now += 3) EXPECT_EQ(Renew(renewed, now), v1::LEASE_COMMAND_CONTINUE);
  const auto ended = store_->ExpireLeases(241);
  ASSERT_EQ(ended->size(), 1u);
  EXPECT_EQ(ended->front().session.worker, silent.session.worker);
  EXPECT_EQ(store_->ExpireLeases(248.9)->size(), 0u);
  EXPECT_EQ(store_->WithdrawExpired(249)->size(), 1u);
  EXPECT_FALSE(Held(renewed));
}

TEST_P(StoreSuite, RenewalDoesNotShortenALease) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const Lease lease = GiveOut({Join("a", 1)}).leases.at(0);  // until 210
  EXPECT_EQ(Renew(lease, 150), v1::LEASE_COMMAND_CONTINUE) << "a call whose time was read before a pause";
  EXPECT_EQ(store_->ExpireLeases(209.9)->size(), 0u);
  EXPECT_EQ(store_->ExpireLeases(210)->size(), 1u);
}

// A worker that hangs may still renew.
TEST_P(StoreSuite, RenewalEndsBeyondTheJobsTimeLimit) {
  const std::int64_t id = NewRunning();
  v1::Job job = TrainJob();
  job.set_time_limit_s(30);
  EnqueueJob(id, "tp=1", job);
  const WorkerSession worker = Join("a", 1);
  const Lease lease = GiveOut({worker}).leases.at(0);  // at 200: 30 s to run and 120 s for all else
  double now = 200;
  for (; now < 349; now += 5) EXPECT_EQ(Renew(lease, now), v1::LEASE_COMMAND_CONTINUE) << now;
  EXPECT_EQ(store_->ExpireLeases(349.9)->size(), 0u);
  const auto ended = *store_->ExpireLeases(350);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].state, v1::TRIAL_STATE_QUEUED) << "another worker may do better";
  const v1::Trial trial = Trial(id, 1);
  ASSERT_EQ(trial.attempts_size(), 1);
  EXPECT_EQ(trial.attempts(0).state(), v1::TRIAL_STATE_LOST);
  EXPECT_THAT(trial.attempts(0).message(), testing::HasSubstr("beyond the job's time limit"));
  EXPECT_EQ(store_->RenewLease(worker.worker, worker.epoch, lease.lease_id, lease.fencing_token, 351, 10)
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreSuite, ExpiredLeaseIsNotReportedAsTooLong) {
  const std::int64_t id = NewRunning();
  v1::Job job = TrainJob();
  job.set_time_limit_s(30);
  EnqueueJob(id, "tp=1", job);
  ASSERT_EQ(GiveOut({Join("a", 1)}).leases.size(), 1u);
  ASSERT_EQ(store_->ExpireLeases(210)->size(), 1u);
  EXPECT_EQ(Trial(id, 1).attempts(0).message(),
            "the worker did not renew its lease; check the worker's host and network");
}

TEST_P(StoreSuite, OnlyTheHolderMayRenew) {
  Enqueue(NewRunning(), "tp=1");
  const std::int64_t epoch = Register();
  const std::int64_t other = Register("workers/b");
  const Lease lease = *Take(epoch);
  const auto rejected = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(store_->RenewLease("workers/b", other, lease.lease_id, lease.fencing_token, 1, 1).status().code(),
            rejected);
  EXPECT_EQ(
      store_->RenewLease("workers/a", epoch + 1, lease.lease_id, lease.fencing_token, 1, 1).status().code(),
      rejected);
  EXPECT_EQ(
      store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token + 1, 1, 1).status().code(),
      rejected);
  EXPECT_EQ(store_->RenewLease("workers/a", epoch, "lease-no", lease.fencing_token, 1, 1).status().code(),
            rejected);
  EXPECT_TRUE(store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token, 1, 1).ok());
}

TEST_P(StoreSuite, ExpiryRequeuesUntilAttemptsAreUsedUp) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1", 0, 1, /*max_attempts=*/2);
  Enqueue(id, "tp=2");
  const std::int64_t epoch = Register();
  const Lease first = *Take(epoch);
  EXPECT_EQ(store_->ExpireLeases(300)->size(), 1u);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(Trial(id, 1).attempts(0).state(), v1::TRIAL_STATE_LOST);
  const Lease second = *Take(epoch);  // ahead of jobs that were queued after it
  EXPECT_EQ(second.key.trial, 1);
  EXPECT_EQ(second.attempt, 2);
  EXPECT_GT(second.fencing_token, first.fencing_token);
  // The first holder's late report has an outdated fencing token.
  EXPECT_EQ(store_->Report(Measured(first, epoch, "late"), 301).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Rejected(), 1);
  EXPECT_EQ(store_->ExpireLeases(400)->size(), 1u);
  const v1::Trial lost = Trial(id, 1);
  EXPECT_EQ(lost.state(), v1::TRIAL_STATE_LOST);
  EXPECT_EQ(lost.attempts_size(), 2);
  EXPECT_FALSE(lost.message().empty());
  EXPECT_EQ(Take(epoch)->key.trial, 2);
}

TEST_P(StoreSuite, LeaseExpiredDuringDowntimeCostsNoAttempt) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1", 0, 1, /*max_attempts=*/1);
  const std::int64_t epoch = Register();
  for (int i = 1; i <= 3; ++i) {
    const Lease lease = *Take(epoch);  // until 210
    EXPECT_EQ(lease.attempt, i);
    EXPECT_TRUE(store_->WithdrawExpired(209.9)->empty());
    const auto ended = store_->WithdrawExpired(210);
    ASSERT_TRUE(ended.ok()) << ended.status();
    ASSERT_EQ(ended->size(), 1u);
    EXPECT_EQ(ended->front().session, lease.session);
    EXPECT_EQ(ended->front().job, TrialName(id, 1));
    EXPECT_EQ(ended->front().state, v1::TRIAL_STATE_QUEUED);
    EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
    EXPECT_EQ(Trial(id, 1).attempts(i - 1).state(), v1::TRIAL_STATE_LOST);
    EXPECT_EQ(store_->Report(Measured(lease, epoch, fmt::format("r{}", i)), 211).code(),
              absl::StatusCode::kFailedPrecondition);
  }
  Take(epoch);
  const auto lost = store_->ExpireLeases(210);
  ASSERT_TRUE(lost.ok()) << lost.status();
  ASSERT_EQ(lost->size(), 1u);
  EXPECT_EQ(lost->front().state, v1::TRIAL_STATE_LOST);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_LOST);
}

TEST_P(StoreSuite, NewBootFreesThePreviousBootsLeases) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  Enqueue(id, "tp=2");
  const std::int64_t old = Register();
  const std::int64_t other = Register("workers/b");
  const Lease lease = *Take(old);
  Take(other, "workers/b");
  EXPECT_EQ(Register(), old);  // registering again under the same boot frees nothing
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_RUNNING);
  const std::int64_t epoch = Register("workers/a", "boot2");
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(Trial(id, 2).state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_EQ(store_->Report(Measured(lease, old, "r"), 201).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Report(Measured(lease, epoch, "r"), 201).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Take(epoch)->attempt, 2);
}

TEST_P(StoreSuite, StoppingWorkerCostsNoAttempt) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1", 0, 1, /*max_attempts=*/1);
  std::int64_t epoch = 0;
  for (int i = 1; i <= 4; ++i) {
    epoch = Register();
    const Lease lease = *Take(epoch);
    EXPECT_EQ(lease.attempt, i);
    ASSERT_TRUE(store_->DeregisterWorker("workers/a", epoch, 206).ok());
    EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
  }
  epoch = Register();
  ASSERT_TRUE(store_->Report(Measured(*Take(epoch), epoch, "r"), 207).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_MEASURED);
}

TEST_P(StoreSuite, JobReturnedUnaskedUsesUpItsAttempts) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1", 0, 1, /*max_attempts=*/3);
  const WorkerSession a = Join("a", 1);
  const WorkerSession b = Join("b", 1);
  for (int i = 1; i <= 3; ++i) {
    const Assignment given = i == 2 ? GiveOut({a, b}) : GiveOut({a});
    ASSERT_EQ(given.leases.size(), 1u) << i;
    if (i == 2) {
      EXPECT_EQ(given.leases[0].session, b) << "another host is tried first";
    }
    ASSERT_TRUE(store_->Report(ReportOf(given.leases[0], v1::OUTCOME_CANCELLED, "not now"), 205).ok());
    EXPECT_EQ(Trial(id, 1).state(), i < 3 ? v1::TRIAL_STATE_QUEUED : v1::TRIAL_STATE_LOST) << i;
    EXPECT_EQ(Trial(id, 1).message(), "the worker returned the job");
    EXPECT_EQ(Trial(id, 1).attempts(i - 1).state(), v1::TRIAL_STATE_CANCELLED);
  }
  EXPECT_TRUE(GiveOut({a, b}).leases.empty());
}

}  // namespace autocfg::server
