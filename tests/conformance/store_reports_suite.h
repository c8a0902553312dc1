// Part of the contract of Store: reports and logs.
#pragma once

#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

TEST_P(StoreSuite, ReportWritesTrialAttemptAndMeasurement) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_RUNNING);
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r1"), 207).ok());
  const v1::Trial trial = Trial(id, 1);
  EXPECT_EQ(trial.state(), v1::TRIAL_STATE_MEASURED);
  EXPECT_EQ(trial.measured().median_step_time_s(), 0.25);
  ASSERT_EQ(trial.attempts_size(), 1);
  EXPECT_EQ(trial.attempts(0).number(), 1);
  EXPECT_EQ(trial.attempts(0).worker(), "workers/a");
  EXPECT_EQ(trial.attempts(0).state(), v1::TRIAL_STATE_MEASURED);
  EXPECT_EQ(trial.attempts(0).start_time_s(), 200);
  EXPECT_EQ(trial.attempts(0).end_time_s(), 207);
  EXPECT_EQ(store_->Usage(id)->device_s, 3);
  EXPECT_EQ(Rejected(), 0);
}

TEST_P(StoreSuite, CommitsSayWhatTheyDid) {
  std::vector<StoreCommit> commits;
  store_->OnCommit([&](const StoreCommit& commit) { commits.push_back(commit); });
  // Returns the sum of what was told since the last call.
  const auto told = [&] {
    StoreCommit sum;
    for (const StoreCommit& each : commits) {
      EXPECT_FALSE(each.failed);
      EXPECT_GE(each.seconds.value_or(-1), 0);
      sum.leases_granted += each.leases_granted;
      for (std::size_t i = 0; i < kLeaseEnds; ++i) sum.leases_ended[i] += each.leases_ended[i];
      sum.trials_ended.insert(sum.trials_ended.end(), each.trials_ended.begin(), each.trials_ended.end());
      sum.reports_rejected += each.reports_rejected;
    }
    commits.clear();
    return sum;
  };
  using Ended = std::array<std::int64_t, kLeaseEnds>;
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  EXPECT_GE(commits.size(), 3u);
  EXPECT_EQ(told().leases_granted, 0);
  Lease lease = *Take(epoch);
  EXPECT_EQ(told().leases_granted, 1);
  ASSERT_TRUE(store_->ExpireLeases(300).ok());
  StoreCommit sum = told();
  EXPECT_EQ(sum.leases_ended, (Ended{0, 1, 0, 0})) << "reported, expired, lost, returned";
  EXPECT_TRUE(sum.trials_ended.empty()) << "it is queued again";
  EXPECT_FALSE(store_->Report(Measured(lease, epoch, "late"), 301).ok());
  EXPECT_EQ(told().reports_rejected, 1);
  lease = *Take(epoch, "workers/a", 302);
  ASSERT_TRUE(store_->ReturnLease(lease.lease_id, lease.fencing_token, 303).ok());
  EXPECT_EQ(told().leases_ended, (Ended{0, 0, 0, 1}));
  Take(epoch, "workers/a", 304);
  const std::int64_t newer = Register("workers/a", "boot2");
  sum = told();
  EXPECT_EQ(sum.leases_ended, (Ended{0, 0, 1, 0}));
  EXPECT_EQ(sum.trials_ended, std::vector{v1::TRIAL_STATE_LOST}) << "two losses are all of its attempts";
  Enqueue(id, "tp=2");
  lease = *Take(newer, "workers/a", 305);
  ASSERT_TRUE(store_->Report(Measured(lease, newer, "r"), 306).ok());
  sum = told();
  EXPECT_EQ(sum.leases_ended, (Ended{1, 0, 0, 0}));
  EXPECT_EQ(sum.trials_ended, std::vector{v1::TRIAL_STATE_MEASURED});
  EXPECT_TRUE(store_->Report(Measured(lease, newer, "r"), 307).ok());
  EXPECT_EQ(told().leases_ended, Ended{}) << "a repeated report";
  ASSERT_TRUE(store_->GetStudy(id).ok());
  EXPECT_TRUE(commits.empty()) << "reading commits nothing";
}

TEST_P(StoreSuite, FiguresFollowTheQueueAndTheLeases) {
  EXPECT_EQ(store_->Figures()->jobs_queued, 0);
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  Enqueue(id, "tp=2");
  Enqueue(Id(NewStudy()), "tp=1");
  const std::int64_t epoch = Register();
  StoreFigures figures = *store_->Figures();
  EXPECT_EQ(figures.jobs_queued, 2) << "those of a study that does not run do not count";
  EXPECT_EQ(figures.leases_held, 0);
  EXPECT_EQ(figures.studies, (std::map<v1::StudyState, std::int64_t>{{v1::STUDY_STATE_CREATED, 1},
                                                                     {v1::STUDY_STATE_RUNNING, 1}}));
  EXPECT_GT(figures.used_bytes, 0);
  const Lease lease = *Take(epoch);
  figures = *store_->Figures();
  EXPECT_EQ(figures.jobs_queued, 1);
  EXPECT_EQ(figures.leases_held, 1);
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r"), 207).ok());
  EXPECT_EQ(store_->Figures()->leases_held, 0);
}

TEST_P(StoreSuite, MeasurementsKeepTheirBreakdown) {
  const std::int64_t id = NewRunning();
  const std::int64_t epoch = Register();
  v1::ReportTrialRequest report;
  for (const char* plan : {"tp=1", "tp=2"}) {
    Enqueue(id, plan);
    report = Measured(*Take(epoch), epoch, plan);
    if (std::string_view(plan) == "tp=1") {
      report.mutable_measurement()->mutable_breakdown_s()->set_compute(0.125);
      report.mutable_measurement()->mutable_breakdown_s()->set_bubble(0.0625);
      report.mutable_measurement()->mutable_breakdown_s()->set_hidden_comm(0);
    }
    ASSERT_TRUE(store_->Report(report, 207).ok());
  }
  const v1::Measurement with = Trial(id, 1).measured();
  EXPECT_EQ(with.breakdown_s().compute(), 0.125);
  EXPECT_EQ(with.breakdown_s().bubble(), 0.0625);
  EXPECT_EQ(with.breakdown_s().dp_comm(), 0);
  EXPECT_TRUE(with.breakdown_s().has_hidden_comm());
  EXPECT_FALSE(Trial(id, 2).measured().has_breakdown_s());
}

TEST_P(StoreSuite, TimelinesAreKeptOfTheFastestPlansAndTheirNewestTrials) {
  const std::int64_t id = NewRunning();
  const std::int64_t epoch = Register();
  const auto run = [&](const std::string& plan, std::int64_t repeat, double step_s, bool recorded = true) {
    const std::int64_t number = Number(Enqueue(id, plan, repeat));
    v1::ReportTrialRequest report = Measured(*Take(epoch), epoch, fmt::format("{} {}", plan, repeat));
    report.mutable_measurement()->set_step_time_s(0, step_s);
    if (recorded) *report.mutable_timeline() = TimelineFrom(0, static_cast<double>(number));
    EXPECT_TRUE(store_->Report(report, 207).ok());
    return number;
  };
  // Returns the number of the trial whose timeline the plan has; 0: none.
  const auto kept = [&](const std::string& plan) -> std::int64_t {
    const auto found = store_->FindTimeline(id, plan);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || !*found) return 0;
    EXPECT_EQ((*found)->timeline.rows(0).start_s(), (*found)->trial) << "of another trial";
    return (*found)->trial;
  };
  EXPECT_EQ(kept("tp=1"), 0) << "not measured";
  run("none", 0, 0.001, /*recorded=*/false);
  EXPECT_EQ(kept("none"), 0);
  const std::int64_t first = run("tp=1", 0, 0.5);
  EXPECT_EQ(kept("tp=1"), first);
  const std::int64_t newest = run("tp=1", 1, 0.75);
  EXPECT_EQ(kept("tp=1"), newest) << "the newest of a plan, which need not be the fastest";
  EXPECT_EQ((*store_->FindTimeline(id, "tp=1"))->repeat, 1);
  for (int plan = 1; plan < kTimelinePlans; ++plan) {
    const std::int64_t trial = run(fmt::format("mbs={}", plan), 0, 0.25);
    EXPECT_EQ(kept(fmt::format("mbs={}", plan)), trial);
    EXPECT_EQ(kept("tp=1"), newest);
  }
  run("slow", 0, 2);
  EXPECT_EQ(kept("slow"), 0);
  run("slow", 1, 0.001);
  EXPECT_EQ(kept("slow"), 0) << "a trial that is far too fast does not make its plan fast";
  EXPECT_EQ(kept("tp=1"), newest);
  EXPECT_GT(run("fast", 0, 0.125), 0);
  EXPECT_NE(kept("fast"), 0);
  EXPECT_EQ(kept("tp=1"), 0) << "as many plans are faster as are kept";
  EXPECT_EQ(Trial(id, newest).state(), v1::TRIAL_STATE_MEASURED) << "the trial stays";

  const std::int64_t other = NewRunning("other");
  EXPECT_FALSE(store_->FindTimeline(other, "fast")->has_value()) << "of another study";
  EXPECT_TRUE(absl::IsNotFound(store_->FindTimeline(99, "fast").status()));
  SetState(id, v1::STUDY_STATE_CANCELLED);
  EXPECT_NE(kept("fast"), 0);
  ASSERT_TRUE(store_->DeleteStudy(id).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->FindTimeline(id, "fast").status()));
}

TEST_P(StoreSuite, OnlyAMeasuredTrialHasATimeline) {
  const std::int64_t id = NewRunning();
  const std::int64_t epoch = Register();
  Enqueue(id, "tp=1");
  v1::ReportTrialRequest failed = Ended(*Take(epoch), epoch, "r1", v1::OUTCOME_FAILED, "own");
  *failed.mutable_timeline() = TimelineFrom(0, 1);
  ASSERT_TRUE(store_->Report(failed, 207).ok());
  EXPECT_FALSE(store_->FindTimeline(id, "tp=1")->has_value());
  Enqueue(id, "tp=2");
  v1::ReportTrialRequest outside = Measured(*Take(epoch), epoch, "r2");
  *outside.mutable_timeline() = TimelineFrom(2, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Report(outside, 208))) << "the plan has no such rank";
  EXPECT_EQ(Trial(id, 2).state(), v1::TRIAL_STATE_RUNNING);
}

TEST_P(StoreSuite, ReportIsIdempotentByRequestId) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  const v1::ReportTrialRequest report = Measured(lease, epoch, "r1");
  ASSERT_TRUE(store_->Report(report, 201).ok());
  const std::int64_t cursor = Cursor(id);
  EXPECT_TRUE(store_->Report(report, 202).ok());
  EXPECT_EQ(Cursor(id), cursor);
  EXPECT_EQ(Trial(id, 1).attempts(0).end_time_s(), 201);
  EXPECT_EQ(Rejected(), 0);
}

TEST_P(StoreSuite, KnownRequestIdWithOtherContentsIsRejectedAndRecorded) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  const v1::ReportTrialRequest report = Measured(lease, epoch, "r1");
  ASSERT_TRUE(store_->Report(report, 201).ok());
  std::vector<v1::ReportTrialRequest> others(8, report);
  others[0].set_outcome(v1::OUTCOME_FAILED);
  others[1].set_worker("workers/b");
  others[2].set_session_epoch(others[2].session_epoch() + 1);
  others[3].set_fencing_token(others[3].fencing_token() + 1);
  others[4].set_attempt(others[4].attempt() + 1);
  others[5].mutable_measurement()->set_step_time_s(0, 0.125);
  others[6].set_lease_id(others[6].lease_id() + "0");
  others[7].set_message("late words");
  std::int64_t rejected = 0;
  for (const v1::ReportTrialRequest& other : others) {
    EXPECT_EQ(store_->Report(other, 202).code(), absl::StatusCode::kFailedPrecondition) << rejected;
    EXPECT_EQ(Rejected(), ++rejected);
  }
  EXPECT_TRUE(store_->Report(report, 203).ok()) << "the same again";
  EXPECT_EQ(Rejected(), rejected);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_MEASURED);
  EXPECT_EQ(Trial(id, 1).measured().median_step_time_s(), 0.25);
}

TEST_P(StoreSuite, MedianIsComputedFromTheSteps) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  v1::ReportTrialRequest report = Measured(*Take(epoch), epoch, "r1");
  report.mutable_measurement()->set_median_step_time_s(1e-300);
  report.mutable_measurement()->set_ci95_s(1e300);
  ASSERT_TRUE(store_->Report(report, 201).ok());
  EXPECT_EQ(Trial(id, 1).measured().median_step_time_s(), 0.25);
  EXPECT_EQ(Trial(id, 1).measured().ci95_s(), 0.25);
}

TEST_P(StoreSuite, DuplicateReportIsRejectedAndRecorded) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r1"), 201).ok());
  v1::ReportTrialRequest second = Measured(lease, epoch, "r2");
  second.mutable_measurement()->set_median_step_time_s(99);
  EXPECT_EQ(store_->Report(second, 202).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Trial(id, 1).measured().median_step_time_s(), 0.25);
  EXPECT_EQ(Rejected(), 1);
}

TEST_P(StoreSuite, ForeignReportsAreRejectedWithoutEffect) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  Enqueue(id, "tp=2");
  const std::int64_t epoch = Register();
  const std::int64_t other = Register("workers/b");
  const Lease lease = *Take(epoch);
  const Lease theirs = *Take(other, "workers/b");
  std::vector<v1::ReportTrialRequest> wrong(6, Measured(lease, epoch, ""));
  wrong[0].set_worker("workers/b");
  wrong[1].set_session_epoch(wrong[1].session_epoch() + 1);
  wrong[2].set_lease_id("lease-nobody");
  wrong[3].set_fencing_token(theirs.fencing_token);
  wrong[4].set_attempt(2);
  wrong[5].set_lease_id(theirs.lease_id);
  int n = 0;
  for (v1::ReportTrialRequest& report : wrong) {
    report.set_request_id(fmt::format("w{}", ++n));
    EXPECT_EQ(store_->Report(report, 201).code(), absl::StatusCode::kFailedPrecondition) << n;
    EXPECT_EQ(Rejected(), n);
  }
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_EQ(Trial(id, 2).state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_TRUE(store_->Report(Measured(lease, epoch, "right"), 202).ok());
  // A served request's id cannot carry another lease's report.
  EXPECT_EQ(store_->Report(Measured(theirs, other, "right", "workers/b"), 203).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(store_->Report(Measured(theirs, other, "right2", "workers/b"), 204).ok());
}

TEST_P(StoreSuite, EachOutcomeHasItsOwnState) {
  const std::int64_t id = NewRunning();
  const std::vector<std::pair<v1::Outcome, v1::TrialState>> cases = {
      {v1::OUTCOME_OUT_OF_MEMORY, v1::TRIAL_STATE_INFEASIBLE},
      {v1::OUTCOME_FAILED, v1::TRIAL_STATE_FAILED},
      {v1::OUTCOME_TIMED_OUT, v1::TRIAL_STATE_TIMED_OUT}};
  const std::int64_t epoch = Register();
  int n = 0;
  for (const auto& [outcome, state] : cases) {
    ++n;
    Enqueue(id, fmt::format("mbs={}", n));
    const Lease lease = *Take(epoch);
    ASSERT_TRUE(store_->Report(Ended(lease, epoch, fmt::format("r{}", n), outcome, "rank 0: why"), 205).ok());
    const v1::Trial trial = Trial(id, n);
    EXPECT_EQ(trial.state(), state);
    EXPECT_EQ(trial.message(), "rank 0: why");
    EXPECT_EQ(trial.attempts(0).state(), state);
    EXPECT_FALSE(trial.has_measured());
    EXPECT_FALSE(Take(epoch));  // a final result: not retried
  }
  EXPECT_EQ(store_->Usage(id)->device_s, 15);  // three times one rank for five seconds
}

TEST_P(StoreSuite, RefusedJobGoesToTheNextAttempt) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");  // two attempts
  const std::int64_t epoch = Register();
  const Lease first = *Take(epoch);
  const v1::ReportTrialRequest refusal = Ended(first, epoch, "r1", v1::OUTCOME_REFUSED, "GPU 0 is not free");
  ASSERT_TRUE(store_->Report(refusal, 205).ok());
  ASSERT_TRUE(store_->Report(refusal, 206).ok()) << "the same report again";
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(Trial(id, 1).message(), "GPU 0 is not free");
  const std::int64_t other = Register("workers/b");
  const Lease second = *Take(other, "workers/b", 210);
  EXPECT_EQ(second.attempt, 2);
  v1::ReportTrialRequest again = Ended(second, other, "r2", v1::OUTCOME_REFUSED, "nor here");
  again.set_worker("workers/b");
  ASSERT_TRUE(store_->Report(again, 211).ok());
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_LOST);
  EXPECT_EQ(Trial(id, 1).message(), "nor here");
  EXPECT_FALSE(Take(epoch)) << "no attempt is left";
}

TEST_P(StoreSuite, ReportWithoutPayloadIsInvalid) {
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}).ok());
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease calibration = *Take(epoch);
  const Lease trial = *Take(epoch);
  EXPECT_EQ(store_->Report(Measured(calibration, epoch, "r1"), 1).code(), absl::StatusCode::kInvalidArgument);
  v1::ReportTrialRequest empty = Measured(trial, epoch, "r2");
  empty.mutable_measurement()->clear_step_time_s();
  EXPECT_EQ(store_->Report(empty, 1).code(), absl::StatusCode::kInvalidArgument);
  empty.set_outcome(v1::OUTCOME_UNSPECIFIED);
  EXPECT_EQ(store_->Report(empty, 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_TRUE(store_->Report(Measured(trial, epoch, "r2"), 1).ok());
}

TEST_P(StoreSuite, UnrequestedResultIsInvalidAndKeepsTheLease) {
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}).ok());
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease calibration = *Take(epoch);
  const Lease trial = *Take(epoch);
  v1::ReportTrialRequest report = Measured(trial, epoch, "r1");
  report.mutable_measurement()->set_slice(true);
  EXPECT_EQ(store_->Report(report, 1).code(), absl::StatusCode::kInvalidArgument);
  report = Measured(trial, epoch, "r1");
  report.mutable_measurement()->add_step_time_s(0.25);
  EXPECT_EQ(store_->Report(report, 1).code(), absl::StatusCode::kInvalidArgument);
  report = Measured(calibration, epoch, "r2");
  report.mutable_calibration();
  EXPECT_EQ(store_->Report(report, 1).code(), absl::StatusCode::kInvalidArgument);
  report.mutable_calibration()->add_ops()->mutable_op()->set_kind("frob");
  EXPECT_EQ(store_->Report(report, 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Held(trial) && Held(calibration));
  EXPECT_EQ(Trial(id, 1).state(), v1::TRIAL_STATE_RUNNING);
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_RUNNING);
  EXPECT_EQ(Rejected(), 0) << "the worker may correct it";
  EXPECT_TRUE(store_->Report(Measured(trial, epoch, "r1"), 1).ok());
  // Or the worker gives up, and another worker is tried.
  v1::ReportTrialRequest failed =
      Ended(calibration, epoch, "r2", v1::OUTCOME_FAILED, "the result was rejected");
  failed.set_failure(v1::FAILURE_KIND_PROCESS);
  EXPECT_TRUE(store_->Report(failed, 1).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_QUEUED);
}

TEST_P(StoreSuite, CalibrationIsKept) {
  const std::int64_t id = NewRunning();
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_UNSPECIFIED);
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_QUEUED);
  EXPECT_FALSE(store_->GetCalibration(id)->has_value());
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_RUNNING);
  v1::ReportTrialRequest report = Measured(lease, epoch, "r1");
  *report.mutable_calibration()->add_ops()->mutable_op() = lease.job.calibrate().ops(0);
  report.mutable_calibration()->mutable_ops(0)->set_seconds(0.125);
  report.mutable_calibration()->set_device_overhead_bytes(4096);
  ASSERT_TRUE(store_->Report(report, 205).ok());
  EXPECT_EQ(store_->CalibrationState(id)->first, v1::TRIAL_STATE_MEASURED);
  const auto calibration = *store_->GetCalibration(id);
  ASSERT_TRUE(calibration.has_value());
  EXPECT_EQ(calibration->result.device_overhead_bytes(), 4096);
  ASSERT_EQ(calibration->result.ops_size(), 1);
  EXPECT_EQ(calibration->result.ops(0).seconds(), 0.125);
}

TEST_P(StoreSuite, FailedCalibrationHasAReason) {
  const std::int64_t id = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}).ok());
  const std::int64_t epoch = Register();
  ASSERT_TRUE(store_->Report(Ended(*Take(epoch), epoch, "r1", v1::OUTCOME_FAILED, "rank 1: broke"), 2).ok());
  const auto state = *store_->CalibrationState(id);
  EXPECT_EQ(state.first, v1::TRIAL_STATE_FAILED);
  EXPECT_EQ(state.second, "rank 1: broke");
}

TEST_P(StoreSuite, LogsNeedALeaseAndAreBounded) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  EXPECT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, "line\n").ok());
  EXPECT_EQ(store_->AppendLog(lease.lease_id, lease.fencing_token + 1, "x").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->AppendLog("lease-no", lease.fencing_token, "x").code(),
            absl::StatusCode::kFailedPrecondition);
  const std::string big(600 << 10, 'x');
  EXPECT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, big).ok());
  EXPECT_EQ(store_->AppendLog(lease.lease_id, lease.fencing_token, big).code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(store_->Report(Measured(lease, epoch, "r"), 203).ok());
  EXPECT_EQ(store_->AppendLog(lease.lease_id, lease.fencing_token, "x").code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreSuite, TheEndOfALogIsRead) {
  const std::int64_t id = NewRunning();
  Enqueue(id, "tp=1");
  EXPECT_EQ(store_->TrialLog(id, 7, 0, 100).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->TrialLog(id, 1, 0, 100).status().code(), absl::StatusCode::kNotFound) << "no attempt";
  const std::int64_t epoch = Register();
  const Lease lease = *Take(epoch);
  EXPECT_EQ(store_->TrialLog(id, 1, 0, 100)->text(), "");
  ASSERT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, "first\n").ok());
  ASSERT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, "zweite Z\xc3\xa4hlung\n").ok());
  const auto whole = *store_->TrialLog(id, 1, 0, 100);
  EXPECT_EQ(whole.trial(), TrialName(id, 1));
  EXPECT_EQ(whole.attempt(), 1);
  EXPECT_EQ(whole.text(), "first\nzweite Z\xc3\xa4hlung\n");
  EXPECT_EQ(whole.left_out_bytes(), 0);
  for (const std::size_t most : {16u, 17u, 21u}) {  // the second line has 16 bytes
    const auto end = *store_->TrialLog(id, 1, 1, most);
    EXPECT_EQ(end.text(), "zweite Z\xc3\xa4hlung\n") << most;
    EXPECT_EQ(end.left_out_bytes(), 6) << most;
  }
  EXPECT_EQ(store_->TrialLog(id, 1, 1, 22)->left_out_bytes(), 0);
  const auto part = *store_->TrialLog(id, 1, 1, 7);  // begins within a character
  EXPECT_EQ(part.text(), "hlung\n");
  EXPECT_EQ(part.left_out_bytes(), 16);
  EXPECT_EQ(store_->TrialLog(id, 1, 2, 100).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store_->Report(Ended(lease, epoch, "r1", v1::OUTCOME_FAILED, "broke"), 201).ok());
  EXPECT_EQ(store_->TrialLog(id, 1, 1, 100)->text(), whole.text()) << "it outlives the attempt";
}

TEST_P(StoreSuite, TheLogOfACalibrationIsRead) {
  const std::int64_t id = NewRunning();
  EXPECT_EQ(store_->TrialLog(id, 0, 0, 100).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store_->EnqueueCalibration(id, CalibrateJob(), 2, {}).ok());
  Enqueue(id, "tp=1");
  const Lease lease = *Take(Register());
  ASSERT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, "first\n").ok());
  const auto log = *store_->TrialLog(id, 0, 1, 100);
  EXPECT_EQ(log.trial(), CalibrationName(id));
  EXPECT_EQ(log.text(), "first\n");
}

TEST_P(StoreSuite, NewestRejectedReportsAreKept) {
  Enqueue(NewRunning(), "tp=1");
  const std::int64_t epoch = Register();
  Lease lease = *Take(epoch);
  lease.lease_id = "lease-none";
  for (int i = 0; i < kKeptRejections + 5; ++i) {
    if (i == kKeptRejections) {
      EXPECT_EQ(Rejected(), kKeptRejections);
    }
    ASSERT_EQ(store_->Report(Measured(lease, epoch, fmt::format("r{}", i)), 201).code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(Rejected(), kKeptRejections);
}

}  // namespace autocfg::server
