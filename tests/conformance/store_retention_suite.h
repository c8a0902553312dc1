// Retention, and studies of other stores. See store_fixture.h.
#pragma once

#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

class StoreRetentionSuite : public StoreSuite {
 protected:
  static constexpr double kDay = 86400;

  // A study that ended at this time with a measured trial, of which a log is kept.
  std::int64_t Ended(double end_s, v1::StudyState state = v1::STUDY_STATE_DONE, bool result = true,
                     std::size_t log_bytes = 1000) {
    const std::int64_t id = NewRunning();
    Enqueue(id, "tp=1");
    const WorkerSession worker = Join("a", 4);
    const Lease lease = GiveOut({worker}).leases.at(0);
    EXPECT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, std::string(log_bytes, 'l')).ok());
    v1::ReportTrialRequest report = ReportOf(lease, v1::OUTCOME_MEASURED);
    EXPECT_TRUE(store_->Report(report, 201).ok());
    reports_[id] = report;
    const auto ended = store_->ModifyStudy(id, [&](v1::Study& study) {
      study.set_state(state);
      study.set_end_time_s(end_s);
      if (result) study.mutable_best()->set_plan_text("tp=1");
      return absl::OkStatus();
    });
    EXPECT_TRUE(ended.ok()) << ended.status();
    return id;
  }
  Pruned Prune(const RetentionLimits& limits, double now_s, bool dry_run = false) {
    const auto pruned = store_->Prune(limits, now_s, dry_run);
    EXPECT_TRUE(pruned.ok()) << pruned.status();
    return pruned.ok() ? *pruned : Pruned();
  }
  bool Exists(std::int64_t id) { return store_->GetStudy(id).ok(); }
  // Without the ID of its request, a report is one too many.
  bool KnowsReport(std::int64_t id) { return store_->Report(reports_[id], 300).ok(); }

  std::map<std::int64_t, v1::ReportTrialRequest> reports_;
};

TEST_P(StoreRetentionSuite, WithoutLimitsNoStudyChanges) {
  const std::int64_t a = Ended(10 * kDay), failed = Ended(10 * kDay, v1::STUDY_STATE_FAILED, false);
  const Pruned pruned = Prune({}, 1000 * kDay);
  EXPECT_TRUE(pruned.reduced.empty());
  EXPECT_TRUE(pruned.deleted.empty());
  EXPECT_GT(pruned.bytes_before, 0);
  EXPECT_TRUE(Exists(a));
  EXPECT_TRUE(Exists(failed));
  EXPECT_TRUE(KnowsReport(a));
}

TEST_P(StoreRetentionSuite, OldStudiesLoseDetailsAndKeepResults) {
  const std::int64_t old = Ended(10 * kDay), young = Ended(50 * kDay);
  const std::int64_t without = Ended(10 * kDay, v1::STUDY_STATE_CANCELLED, /*result=*/false);
  const std::int64_t open = NewRunning();
  const v1::Trial before = Trial(old, 1);
  const StudyUsage usage = *store_->Usage(old);
  Pruned pruned = Prune({.studies_s = 30 * kDay}, 60 * kDay);
  EXPECT_THAT(pruned.reduced, testing::ElementsAre(old));
  EXPECT_THAT(pruned.deleted, testing::ElementsAre(without));
  EXPECT_TRUE(Exists(open));
  EXPECT_EQ(Trial(old, 1).SerializeAsString(), before.SerializeAsString()) << "its evidence";
  EXPECT_EQ(store_->Usage(old)->device_s, usage.device_s);
  EXPECT_FALSE(KnowsReport(old));
  EXPECT_TRUE(KnowsReport(young));
  pruned = Prune({.studies_s = 30 * kDay}, 60 * kDay);
  EXPECT_TRUE(pruned.reduced.empty()) << "once is enough";
  EXPECT_TRUE(pruned.deleted.empty());
}

TEST_P(StoreRetentionSuite, KeepsTheStudiesThatEndedLast) {
  const std::int64_t second = Ended(20 * kDay), first = Ended(10 * kDay), third = Ended(30 * kDay);
  const std::int64_t without = Ended(5 * kDay, v1::STUDY_STATE_FAILED, /*result=*/false);
  EXPECT_TRUE(Prune({.studies = 4}, 31 * kDay).reduced.empty());
  const Pruned pruned = Prune({.studies = 2}, 31 * kDay);
  EXPECT_THAT(pruned.reduced, testing::ElementsAre(first));
  EXPECT_THAT(pruned.deleted, testing::ElementsAre(without));
  EXPECT_TRUE(KnowsReport(second));
  EXPECT_TRUE(KnowsReport(third));
}

TEST_P(StoreRetentionSuite, TooLargeAFileLosesDetailsThenFailuresThenResults) {
  const std::int64_t oldest = Ended(10 * kDay, v1::STUDY_STATE_DONE, true, 60'000);
  const std::int64_t without = Ended(20 * kDay, v1::STUDY_STATE_FAILED, false, 60'000);
  const std::int64_t newest = Ended(30 * kDay, v1::STUDY_STATE_DONE, true, 60'000);
  const std::int64_t open = NewRunning();
  Enqueue(open, "tp=1");
  const std::int64_t all = Prune({}, 31 * kDay).bytes_before;
  EXPECT_TRUE(Prune({.bytes = all}, 31 * kDay).reduced.empty()) << "it fits";
  EXPECT_THAT(Prune({.bytes = all - 30'000}, 31 * kDay).reduced, testing::ElementsAre(oldest));
  Pruned pruned = Prune({.bytes = all - 170'000}, 31 * kDay);
  EXPECT_THAT(pruned.reduced, testing::ElementsAre(without, newest));
  EXPECT_TRUE(pruned.deleted.empty());
  EXPECT_LE(pruned.bytes_after, all - 170'000);
  pruned = Prune({.bytes = 1}, 31 * kDay);
  EXPECT_THAT(pruned.deleted, testing::ElementsAre(without, oldest, newest));
  EXPECT_TRUE(Exists(open)) << "whatever the limit";
  EXPECT_GT(pruned.bytes_after, 1);
}

TEST_P(StoreRetentionSuite, DryRunChangesNothing) {
  const std::int64_t old = Ended(10 * kDay, v1::STUDY_STATE_DONE, true, 60'000);
  const std::int64_t without = Ended(10 * kDay, v1::STUDY_STATE_FAILED, false);
  const RetentionLimits limits = {.studies_s = kDay};
  const Pruned would = Prune(limits, 60 * kDay, /*dry_run=*/true);
  EXPECT_THAT(would.reduced, testing::ElementsAre(old));
  EXPECT_THAT(would.deleted, testing::ElementsAre(without));
  EXPECT_LT(would.bytes_after, would.bytes_before);
  EXPECT_TRUE(Exists(without));
  EXPECT_TRUE(KnowsReport(old));
  const Pruned did = Prune(limits, 60 * kDay);
  EXPECT_EQ(did.reduced, would.reduced);
  EXPECT_EQ(did.deleted, would.deleted);
  EXPECT_EQ(did.bytes_after, would.bytes_after);
}

TEST_P(StoreRetentionSuite, RequestIdsAreKeptForTheirTime) {
  const v1::Study study = NewStudy("f", "id");
  EXPECT_EQ(Prune({.requests_s = 5 * kDay}, 100 * kDay).requests, 0) << "seen for the first time";
  EXPECT_EQ(Prune({.requests_s = 5 * kDay}, 104 * kDay).requests, 0);
  EXPECT_EQ(NewStudy("f", "id").name(), study.name());
  EXPECT_EQ(Prune({.requests_s = 5 * kDay}, 106 * kDay).requests, 1);
  EXPECT_NE(NewStudy("f", "id").name(), study.name());
}

TEST_P(StoreRetentionSuite, ManyRequestIdsGoInSeveralSteps) {
  const int requests = GetParam().name == "Memory" ? 4500 : 10;  // a file syncs each commit
  const std::int64_t id = Id(NewStudy());
  for (int i = 0; i < requests; ++i) {
    const auto edited = store_->ModifyStudy(id, [](v1::Study&) { return absl::OkStatus(); },
                                            {.request_id = fmt::format("r{}", i)});
    ASSERT_TRUE(edited.ok()) << edited.status();
  }
  EXPECT_EQ(Prune({.requests_s = 5 * kDay}, 100 * kDay).requests, 0);
  EXPECT_EQ(Prune({.requests_s = 5 * kDay}, 106 * kDay, /*dry_run=*/true).requests, requests);
  EXPECT_EQ(Prune({.requests_s = 5 * kDay}, 106 * kDay).requests, requests);
}

TEST_P(StoreRetentionSuite, GoneWorkersAreKeptForTheirTimeAndWhileAttemptsNameThem) {
  const std::int64_t study = Ended(10 * kDay);  // by workers/a
  const WorkerSession gone = Join("b", 1), back = Join("c", 1), here = Join("d", 1);
  for (const WorkerSession& worker : {Join("a", 4), gone, back})
    ASSERT_TRUE(store_->DeregisterWorker(worker.worker, worker.epoch, 300).ok());
  EXPECT_EQ(Prune({.workers_s = 5 * kDay}, 100 * kDay).workers, 0) << "seen for the first time";
  Join("c", 1);
  EXPECT_EQ(Prune({.workers_s = 5 * kDay}, 106 * kDay).workers, 1);
  const auto known = store_->ListWorkers("", 10, /*gone=*/true);
  std::vector<std::string> names;
  for (const WorkerRecord& worker : *known) names.push_back(worker.session.worker);
  EXPECT_THAT(names, testing::ElementsAre("workers/a", "workers/c", "workers/d"));
  ASSERT_TRUE(store_->DeleteStudy(study).ok());
  EXPECT_EQ(Prune({.workers_s = 5 * kDay}, 107 * kDay).workers, 1) << "workers/a";
}

TEST_P(StoreRetentionSuite, OldOpTimesGo) {
  const std::int64_t study = NewRunning();
  ASSERT_TRUE(store_->EnqueueCalibration(study, CalibrateJob(), 1, {}).ok());
  v1::RegisterWorkerRequest request;
  request.set_worker("workers/gpu");
  request.set_boot_id("boot");
  v1::Inventory& inventory = *request.mutable_inventory();
  inventory.set_slots(1);
  inventory.set_device_kind("cpu");
  inventory.set_hostname("host");
  inventory.set_device_fingerprint("CPU X");
  inventory.set_build_id("build");
  const WorkerSession worker = {"workers/gpu", *store_->RegisterWorker(request, 100)};
  const Lease lease = GiveOut({worker}).leases.at(0);
  v1::ReportTrialRequest report = ReportOf(lease, v1::OUTCOME_MEASURED);
  report.clear_measurement();
  v1::OpTime& time = *report.mutable_calibration()->add_ops();
  *time.mutable_op() = lease.job.calibrate().ops(0);
  time.set_seconds(1);
  ASSERT_TRUE(store_->Report(report, 201).ok());
  EXPECT_EQ(Prune({}, 200 + 364 * kDay).op_times, 0);
  EXPECT_EQ(Prune({}, 202 + 365 * kDay).op_times, 1);
}

TEST_P(StoreRetentionSuite, SpaceIsGivenBackInSteps) {
  for (int i = 0; i < 10; ++i) Ended(10 * kDay, v1::STUDY_STATE_FAILED, false, 60'000);
  ASSERT_EQ(Prune({.studies_s = kDay}, 20 * kDay).deleted.size(), 10u);
  auto more = store_->GiveBackSpace(/*all=*/false);
  ASSERT_TRUE(more.ok()) << more.status();
  while (more.ok() && *more) more = store_->GiveBackSpace(/*all=*/false);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_FALSE(*store_->GiveBackSpace(/*all=*/true));
  const std::int64_t id = Ended(10 * kDay);
  EXPECT_TRUE(Exists(id)) << "the store works on";
}

// Returns the copy of a study, as a portable file has it.
inline Store::StudyCopy CopyOf(Store& store, std::int64_t id) {
  Store::StudyCopy copy;
  copy.study = *store.GetStudy(id);
  copy.usage = *store.Usage(id);
  copy.calibration = *store.GetCalibration(id);
  copy.trials = *store.ListTrials(id, 0, 1000);
  return copy;
}

TEST_P(StoreRetentionSuite, ImportedStudyHasEverythingUnderANewId) {
  const std::int64_t id = Ended(10 * kDay);
  const Store::StudyCopy copy = CopyOf(*store_, id);
  const auto made = store_->ImportStudy(copy);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_GT(Id(*made), id);
  const Store::StudyCopy read = CopyOf(*store_, Id(*made));
  v1::Study study = read.study;
  study.set_name(copy.study.name());
  EXPECT_EQ(study.SerializeAsString(), copy.study.SerializeAsString());
  EXPECT_EQ(read.usage.wall_s, copy.usage.wall_s);
  EXPECT_EQ(read.usage.device_s, copy.usage.device_s);
  ASSERT_EQ(read.trials.size(), copy.trials.size());
  for (std::size_t i = 0; i < read.trials.size(); ++i) {
    v1::Trial trial = read.trials[i];
    trial.set_name(copy.trials[i].name());
    EXPECT_EQ(trial.DebugString(), copy.trials[i].DebugString());
  }
  // It is a study like the others.
  EXPECT_EQ(store_->ListStudies(0, 10)->size(), 2u);
  EXPECT_TRUE(store_->ChangesAfter(Id(*made), 0, 10).ok());
  EXPECT_TRUE(store_->DeleteStudy(Id(*made)).ok());
  EXPECT_TRUE(Exists(id));
}

TEST_P(StoreRetentionSuite, ImportRefusesWhatIsNotWhole) {
  const std::int64_t id = Ended(10 * kDay);
  const Store::StudyCopy good = CopyOf(*store_, id);
  const auto expect_refused = [&](const Store::StudyCopy& copy, const std::string& words) {
    const absl::Status status = store_->ImportStudy(copy).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(words));
  };
  Store::StudyCopy copy = good;
  copy.study.set_state(v1::STUDY_STATE_RUNNING);
  expect_refused(copy, "the study has not ended");
  copy = good;
  copy.trials[0].set_state(v1::TRIAL_STATE_QUEUED);
  expect_refused(copy, "trial 1 has not ended");
  copy = good;
  copy.trials.push_back(copy.trials[0]);
  expect_refused(copy, "two trials 1");
  copy.trials[1].set_name("studies/1/trials/2");
  expect_refused(copy, "two trials of plan tp=1");
  copy = good;
  *copy.trials[0].add_attempts() = copy.trials[0].attempts(0);
  expect_refused(copy, "attempt 1 of trial 1");
  EXPECT_EQ(store_->ListStudies(0, 10)->size(), 1u);
}

}  // namespace autocfg::server
