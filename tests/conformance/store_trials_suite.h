// Part of the contract of Store: trials, and cancelling them.
#pragma once

#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

TEST_P(StoreSuite, TrialIsUniqueByPlanAndRepeat) {
  const std::int64_t id = NewRunning();
  const v1::Trial first = Enqueue(id, "tp=1");
  EXPECT_EQ(first.state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(first.name(), TrialName(id, 1));
  EXPECT_EQ(Enqueue(id, "tp=1").name(), first.name());
  EXPECT_EQ(Enqueue(id, "tp=1", 1).name(), TrialName(id, 2));
  EXPECT_EQ(Enqueue(id, "tp=2").name(), TrialName(id, 3));
  EXPECT_EQ(Enqueue(NewRunning(), "tp=1").name().substr(0, 8), "studies/");
  EXPECT_EQ(store_->ListTrials(id, 0, 100)->size(), 3u);
  // One job per trial: the second request queued nothing.
  const std::int64_t epoch = Register("workers/a", "b", 100);
  std::set<std::string> names;
  while (auto lease = Take(epoch)) EXPECT_TRUE(names.insert(lease->job.name()).second);
  EXPECT_EQ(names.size(), 4u);
}

TEST_P(StoreSuite, EnqueueRejectsInvalidJobs) {
  v1::Trial trial;
  trial.set_plan_text("tp=1");
  EXPECT_EQ(store_->EnqueueTrial(77, trial, TrainJob(), 2).status().code(), absl::StatusCode::kNotFound);
  const std::int64_t id = NewRunning();
  EXPECT_EQ(store_->EnqueueTrial(id, trial, v1::Job(), 2).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->EnqueueTrial(id, trial, TrainJob(0), 2).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->EnqueueTrial(id, trial, TrainJob(), 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  trial.clear_plan_text();
  EXPECT_EQ(store_->EnqueueTrial(id, trial, TrainJob(), 2).status().code(),
            absl::StatusCode::kInvalidArgument);
  SetState(id, v1::STUDY_STATE_DONE);
  trial.set_plan_text("tp=1");
  EXPECT_EQ(store_->EnqueueTrial(id, trial, TrainJob(), 2).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreSuite, ListsTrialsAscendingInPages) {
  const std::int64_t id = NewRunning();
  for (int i = 1; i <= 5; ++i) Enqueue(id, fmt::format("mbs={}", i));
  const auto page = *store_->ListTrials(id, 1, 3);
  ASSERT_EQ(page.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Number(page[static_cast<std::size_t>(i)]), i + 2);
    EXPECT_EQ(page[static_cast<std::size_t>(i)].plan_text(), fmt::format("mbs={}", i + 2));
    EXPECT_EQ(page[static_cast<std::size_t>(i)].predicted().step_time_s(), 0.5);
  }
  EXPECT_TRUE(store_->ListTrials(id, 5, 3)->empty());
}

TEST_P(StoreSuite, CancelJobsEndsQueuedAndSignalsRunning) {
  const std::int64_t id = NewRunning();
  const std::int64_t other = NewRunning();
  Enqueue(id, "tp=1");
  Enqueue(id, "tp=2");
  Enqueue(other, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->CancelJobs(id).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_EQ(Trial(id, 2).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_EQ(*store_->RenewLease("workers/a", epoch, lease.lease_id, lease.fencing_token, 202, 10),
            v1::LEASE_COMMAND_CANCEL);
  EXPECT_EQ(Take(epoch)->key.study, other);
  // The end of the cancelled attempt is recorded and does not revive the trial.
  EXPECT_TRUE(store_->Report(Ended(lease, epoch, "c", v1::OUTCOME_CANCELLED, "cancelled"), 203).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_EQ(Trial(id, 1).attempts(0).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_EQ(Rejected(), 0);
}

TEST_P(StoreSuite, LateResultDoesNotReviveACancelledTrial) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  Enqueue(id, "tp=2");
  const std::int64_t epoch = Register();
  const Lease a = *Take(epoch);
  Take(epoch);
  SetState(id, v1::STUDY_STATE_CANCELLED);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_TRUE(store_->Report(Measured(a, epoch, "r"), 203).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_FALSE(Trial(id, 1).has_measured());
  EXPECT_EQ(store_->ExpireLeases(400)->size(), 1u);
  EXPECT_EQ(Trial(id, 2).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_FALSE(Take(epoch));
}

TEST_P(StoreSuite, CancelledCalibrationIsNotQueuedAgain) {
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}).ok());
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->CancelJobs(id).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_CANCELLED);
  EXPECT_TRUE(store_->Report(Ended(lease, epoch, "c", v1::OUTCOME_CANCELLED, ""), 3).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_CANCELLED);
}

// --- Retries ---

TEST_P(StoreSuite, UnansweredTrialCanBeRetried) {
  const std::int64_t id = NewRunning();
  const WorkerSession a = Join("a", 4);
  const auto refused = absl::StatusCode::kFailedPrecondition;
  Enqueue(id, "tp=1", 0, 1, /*max_attempts=*/2);
  EXPECT_EQ(store_->RetryTrial(id, 1, "").status().code(), refused) << "queued";
  const auto retry = [&](const std::string& request_id) { return store_->RetryTrial(id, 1, request_id); };
  const auto run = [&](v1::Outcome outcome) {
    const Lease lease = GiveOut({a}).leases.at(0);
    EXPECT_EQ(store_->RetryTrial(id, 1, "").status().code(), refused) << "running";
    ASSERT_TRUE(store_->Report(ReportOf(lease, outcome, "why"), 205).ok());
  };
  run(v1::OUTCOME_FAILED);
  auto again = retry("r1");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->name(), TrialName(id, 1));
  EXPECT_EQ(again->state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(again->message(), "");
  EXPECT_EQ(again->attempts_size(), 1);
  run(v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(retry("r1")->state(), v1::TRIAL_STATE_TIMED_OUT) << "served before";
  ASSERT_TRUE(retry("r2").ok());
  // The attempt limit is reset: the trial is lost only after two more lost attempts.
  for (const v1::TrialState state : {v1::TRIAL_STATE_QUEUED, v1::TRIAL_STATE_LOST}) {
    GiveOut({a});
    EXPECT_EQ(store_->ExpireLeases(1000)->size(), 1u);
    EXPECT_EQ(Trial(id, 1).state(), state);
  }
  ASSERT_TRUE(retry("r3").ok());
  GiveOut({a});
  EXPECT_EQ(store_->ExpireLeases(1000)->size(), 1u);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED) << "of two, one is left";
  ASSERT_TRUE(store_->CancelJobs(id).ok());
  ASSERT_TRUE(retry("").ok());
  EXPECT_EQ(GiveOut({a}).leases.at(0).attempt, 6);
  EXPECT_EQ(store_->RetryTrial(id, 2, "").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->RetryTrial(id + 9, 1, "").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreSuite, AnsweredTrialsAndEndedStudiesAreNotRetried) {
  const std::int64_t id = NewRunning();
  const WorkerSession a = Join("a", 4);
  const auto refused = absl::StatusCode::kFailedPrecondition;
  Enqueue(id, "mbs=1");
  Enqueue(id, "mbs=2");
  Enqueue(id, "mbs=4");
  ASSERT_TRUE(store_->Report(ReportOf(GiveOut({a}).leases.at(0), v1::OUTCOME_MEASURED), 201).ok());
  ASSERT_TRUE(store_->Report(ReportOf(GiveOut({a}).leases.at(0), v1::OUTCOME_OUT_OF_MEMORY), 201).ok());
  ASSERT_TRUE(store_->Report(ReportOf(GiveOut({a}).leases.at(0), v1::OUTCOME_FAILED), 201).ok());
  EXPECT_EQ(store_->RetryTrial(id, 1, "").status().code(), refused);
  EXPECT_EQ(store_->RetryTrial(id, 2, "").status().code(), refused);
  EXPECT_EQ(store_->RetryTrial(id, 3, "").status().code(), absl::StatusCode::kOk);
  EXPECT_EQ(NewStudy("g", "taken").fingerprint(), "g");
  SetState(id, v1::STUDY_STATE_CANCELLED);
  EXPECT_EQ(store_->RetryTrial(id, 3, "").status().code(), refused);
  const std::int64_t other = NewRunning();
  Enqueue(other, "mbs=1");
  ASSERT_TRUE(store_->Report(ReportOf(GiveOut({a}).leases.at(0), v1::OUTCOME_FAILED), 201).ok());
  EXPECT_EQ(store_->RetryTrial(other, 1, "taken").status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace autocfg::server
