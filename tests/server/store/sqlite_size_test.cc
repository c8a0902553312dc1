// How large the database grows, and that no statement reads more of it than it needs.
#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "SQLiteCpp/SQLiteCpp.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/store/study_edits.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

// The steps of SQLite's machine that each statement of this process has taken at most in one run, by its
// text, since the last clear.
std::map<std::string, int>& MostSteps() {
  static std::map<std::string, int> steps;
  return steps;
}

int NoteSteps(unsigned, void*, void* statement, void*) {
  auto* const finished = static_cast<sqlite3_stmt*>(statement);
  int& most = MostSteps()[sqlite3_sql(finished)];
  most = std::max(most, sqlite3_stmt_status(finished, SQLITE_STMTSTATUS_VM_STEP, /*resetFlg=*/1));
  return SQLITE_OK;
}

int Trace(sqlite3* db, char**, const sqlite3_api_routines*) {
  return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, NoteSteps, nullptr);
}

class SqliteSizeTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = dir_.File("a.db");
    auto store = OpenSqliteStore(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    v1::RegisterWorkerRequest worker;
    worker.set_worker("workers/a");
    worker.set_boot_id("b");
    worker.mutable_inventory()->set_slots(1'000'000);
    epoch_ = *store_->RegisterWorker(worker, 0);
  }

  std::int64_t NewStudy() {
    v1::Study study;
    study.set_fingerprint("f");
    const std::int64_t id = *ParseStudyName(store_->CreateStudy("", study, 1)->name());
    EXPECT_TRUE(SetStudyState(*store_, id, v1::STUDY_STATE_RUNNING).ok());
    return id;
  }
  void Enqueue(std::int64_t study, int plan) {
    v1::Trial trial;
    trial.set_plan_text(fmt::format("mbs={}", plan));
    v1::Job job;
    job.set_ranks(1);
    job.set_device("cpu");
    job.mutable_train()->set_steps(2);
    job.mutable_train()->set_warmup_steps_untimed(1);
    job.mutable_train()->set_record_breakdown(true);
    job.mutable_train()->mutable_model()->set_name(std::string(1000, 'm'));
    const auto queued = store_->EnqueueTrial(study, trial, job, 2);
    EXPECT_TRUE(queued.ok()) << queued.status();
  }
  Lease Take() {
    auto assigned = store_->LeaseJobs({{"workers/a", epoch_}}, {{"workers/a", epoch_}}, 10, 1000);
    EXPECT_TRUE(assigned.ok()) << assigned.status();
    EXPECT_EQ(assigned->leases.size(), 1u);
    return assigned->leases.empty() ? Lease() : assigned->leases.front();
  }
  absl::Status Report(const Lease& lease, v1::Outcome outcome, double step_s = 0.5, int timeline_rows = 0) {
    v1::ReportTrialRequest report;
    report.set_worker("workers/a");
    report.set_session_epoch(epoch_);
    report.set_lease_id(lease.lease_id);
    report.set_fencing_token(lease.fencing_token);
    report.set_attempt(lease.attempt);
    report.set_request_id(lease.lease_id + "/report");
    report.set_outcome(outcome);
    if (outcome == v1::OUTCOME_MEASURED && lease.job.has_calibrate()) {
      v1::OpTime& time = *report.mutable_calibration()->add_ops();
      *time.mutable_op() = lease.job.calibrate().ops(0);
      time.set_seconds(1e-3);
    } else if (outcome == v1::OUTCOME_MEASURED) {
      report.mutable_measurement()->add_step_time_s(step_s);
      report.mutable_measurement()->set_median_step_time_s(step_s);
    }
    for (int i = 0; i < timeline_rows; ++i) {
      v1::TimelineRow& row = *report.mutable_timeline()->add_rows();
      row.set_lane("compute");
      row.set_kind("forward");
      row.set_start_s(1e-6 * i);
      row.set_end_s(1);
    }
    return store_->Report(report, 11);
  }
  void EnqueueCalibration(std::int64_t study) {
    v1::Job job;
    job.set_ranks(1);
    job.set_device("cpu");
    job.mutable_calibrate()->set_time_budget_s(1);
    job.mutable_calibrate()->add_ops()->set_kind("matmul");
    EXPECT_TRUE(store_->EnqueueCalibration(study, job, 2, {}).ok());
  }
  // Everything that the server does with a lease until its report, which it makes.
  void UseLease(std::int64_t study, const Lease& lease) {
    const WorkerSession session{"workers/a", epoch_};
    EXPECT_TRUE(store_->CheckSession(session).ok());
    EXPECT_TRUE(store_->SetLeaving(session, std::nullopt).ok());
    EXPECT_TRUE(store_->RenewLease("workers/a", epoch_, lease.lease_id, lease.fencing_token, 10, 1000).ok());
    EXPECT_TRUE(store_->FindShare(lease.lease_id, lease.fencing_token).ok());
    EXPECT_TRUE(store_->AppendLog(lease.lease_id, lease.fencing_token, "a line\n").ok());
    EXPECT_TRUE(store_->KeepOnly(session, {lease.lease_id}, 11).ok());
    EXPECT_TRUE(store_->ExpireLeases(11).ok());
    EXPECT_TRUE(store_->LoseGangShares(session, "its peers are cut off", 11)->empty());
    EXPECT_TRUE(store_->LeasesToStop()->empty());
    EXPECT_EQ(store_->WorkersOn(study)->size(), 1u);
    EXPECT_TRUE(store_->WaitingStudies({session}, {session}, 11).ok());
    EXPECT_EQ(store_->ListWorkers("", 10, /*gone=*/true)->size(), 1u);
    EXPECT_EQ(store_->GetWorker("workers/a")->jobs.size(), 1u);
    EXPECT_TRUE(Report(lease, v1::OUTCOME_MEASURED).ok());
  }
  // What those ask who follow a study.
  void ReadStudy(std::int64_t study) {
    EXPECT_TRUE(store_->GetStudy(study).ok());
    EXPECT_TRUE(store_->Usage(study).ok());
    EXPECT_TRUE(store_->ChangeCursor(study).ok());
    EXPECT_TRUE(store_->ChangesAfter(study, 0, 10).ok());
    EXPECT_TRUE(store_->GetTrial(study, 1).ok());
    EXPECT_TRUE(store_->TrialLog(study, 1, 0, 100).ok());
    EXPECT_TRUE(store_->FindTimeline(study, "mbs=0").ok());
    EXPECT_EQ(store_->ListTrials(study, 0, 10)->size(), 5u);
    EXPECT_TRUE(store_->GetCalibration(study).ok());
    EXPECT_TRUE(store_->CalibrationState(study).ok());
    EXPECT_EQ(store_->StudiesInState(v1::STUDY_STATE_RUNNING)->size(), 1u);
    EXPECT_EQ(store_->ListStudies(0, 3)->size(), 3u);
    EXPECT_TRUE(store_->CreatedBy("a request").ok());
    OpTimesKey key;
    key.device = "cpu";
    v1::CalibrateSpec spec;
    spec.add_ops()->set_kind("matmul");
    EXPECT_TRUE(store_->FindOpTimes(key, spec, 12).ok());
    EXPECT_TRUE(store_->AllOpTimes(key, 12).ok());
  }
  void RestartWorker() {
    EXPECT_TRUE(store_->DeregisterWorker("workers/a", epoch_, 13).ok());
    v1::RegisterWorkerRequest worker;
    worker.set_worker("workers/a");
    worker.set_boot_id("b" + std::to_string(epoch_));
    worker.mutable_inventory()->set_slots(1'000'000);
    epoch_ = *store_->RegisterWorker(worker, 13);
    EXPECT_TRUE(store_->RegisterWorker(worker, 13).ok());
  }
  // Bytes of the messages of the study's jobs.
  std::int64_t JobBytes(std::int64_t study) {
    SQLite::Database db(path_, SQLite::OPEN_READONLY);
    return db.execAndGet(fmt::format("SELECT SUM(length(job)) FROM jobs WHERE study = {}", study)).getInt64();
  }

  TempDir dir_;
  std::string path_;
  std::unique_ptr<Store> store_;
  std::int64_t epoch_ = 0;
};

TEST_F(SqliteSizeTest, JobsThatCanNeverRunAgainKeepNoMessage) {
  const std::int64_t study = NewStudy();
  Enqueue(study, 1);
  Enqueue(study, 2);
  Enqueue(study, 3);
  const std::int64_t one = JobBytes(study) / 3;
  ASSERT_GT(one, 1000);
  ASSERT_TRUE(Report(Take(), v1::OUTCOME_MEASURED).ok());
  EXPECT_EQ(JobBytes(study), 2 * one) << "measured";
  ASSERT_TRUE(Report(Take(), v1::OUTCOME_OUT_OF_MEMORY).ok());
  EXPECT_EQ(JobBytes(study), one) << "out of memory";
  ASSERT_TRUE(Report(Take(), v1::OUTCOME_TIMED_OUT).ok());
  EXPECT_EQ(JobBytes(study), one) << "it can be retried";
  ASSERT_TRUE(store_->RetryTrial(study, 3, "").ok());
  const Lease again = Take();
  EXPECT_EQ(again.job.train().model().name(), std::string(1000, 'm'));
  ASSERT_TRUE(Report(again, v1::OUTCOME_TIMED_OUT).ok());
  ASSERT_TRUE(SetStudyState(*store_, study, v1::STUDY_STATE_DONE).ok());
  EXPECT_EQ(JobBytes(study), 0) << "the study has ended";
}

TEST_F(SqliteSizeTest, TimelinesAreWrittenOnceAndOnlyIfTheyAreKept) {
  constexpr int kRows = 20'000;
  const auto pages = [&] {
    return SQLite::Database(path_, SQLite::OPEN_READONLY).execAndGet("PRAGMA page_count").getInt();
  };
  const std::int64_t study = NewStudy();
  int plan = 0;
  const auto run = [&](double step_s, int rows) {
    Enqueue(study, ++plan);
    ASSERT_TRUE(Report(Take(), v1::OUTCOME_MEASURED, step_s, rows).ok());
  };
  for (int i = 0; i < kTimelinePlans; ++i) run(1, 1);
  const int before = pages();
  run(2, kRows);
  EXPECT_LT(pages(), before + 16) << "a slow plan";
  run(0.5, kRows);
  const auto found = store_->FindTimeline(study, fmt::format("mbs={}", plan));
  ASSERT_TRUE(found.ok() && *found);
  ASSERT_EQ((*found)->timeline.rows_size(), kRows);
  const auto one = static_cast<int>((*found)->timeline.ByteSizeLong() / 4096);
  EXPECT_GT(one, 100);
  EXPECT_LT(pages(), before + one + one / 2) << "two copies";
}

TEST_F(SqliteSizeTest, JobKeepsItsMessageWhileAnAttemptRuns) {
  const std::int64_t study = NewStudy();
  Enqueue(study, 1);
  const Lease lease = Take();
  ASSERT_TRUE(SetStudyState(*store_, study, v1::STUDY_STATE_CANCELLED).ok());
  EXPECT_GT(JobBytes(study), 0);
  EXPECT_TRUE(Report(lease, v1::OUTCOME_MEASURED).ok()) << "it is checked against its job";
  EXPECT_EQ(JobBytes(study), 0);
}

// What ended long ago costs nothing: no statement of a study's course takes more steps in a database with ten
// times the studies. (Pruning and lists of everything read what they are about.)
TEST_F(SqliteSizeTest, NoStatementReadsTheHistory) {
  sqlite3_auto_extension(reinterpret_cast<void (*)()>(Trace));
  store_.reset();
  auto store = OpenSqliteStore(path_);
  sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(Trace));
  ASSERT_TRUE(store.ok()) << store.status();
  store_ = *std::move(store);

  const auto run_studies = [&](int studies) {
    for (int i = 0; i < studies; ++i) {
      const std::int64_t study = NewStudy();
      EnqueueCalibration(study);
      for (int trial = 0; trial < 4; ++trial) Enqueue(study, trial);
      EXPECT_TRUE(Report(Take(), v1::OUTCOME_MEASURED).ok());
      EXPECT_TRUE(Report(Take(), v1::OUTCOME_FAILED).ok());
      for (int trial = 1; trial < 4; ++trial) EXPECT_TRUE(Report(Take(), v1::OUTCOME_MEASURED).ok());
      EXPECT_TRUE(SetStudyState(*store_, study, v1::STUDY_STATE_DONE).ok());
    }
  };
  const auto work = [&] {
    MostSteps().clear();
    const std::int64_t study = NewStudy();
    EnqueueCalibration(study);
    EXPECT_TRUE(Report(Take(), v1::OUTCOME_MEASURED).ok());
    for (int trial = 0; trial < 5; ++trial) Enqueue(study, trial);
    UseLease(study, Take());
    EXPECT_TRUE(Report(Take(), v1::OUTCOME_TIMED_OUT).ok());
    ReadStudy(study);
    EXPECT_TRUE(store_->RetryTrial(study, 2, "").ok());
    const Lease returned = Take();
    EXPECT_TRUE(store_->ReturnLease(returned.lease_id, returned.fencing_token, 12).ok());
    Take();
    EXPECT_EQ(*store_->GrantAnew(12, 1000), 1);
    EXPECT_TRUE(store_->WithdrawExpired(12)->empty());
    EXPECT_TRUE(store_->CancelJobs(study).ok());
    EXPECT_EQ(store_->LeasesToStop()->size(), 1u);
    RestartWorker();
    EXPECT_TRUE(SetStudyState(*store_, study, v1::STUDY_STATE_DONE).ok());
    EXPECT_TRUE(store_->DeleteStudy(study).ok());
    return MostSteps();
  };
  run_studies(4);
  const std::map<std::string, int> before = work();
  EXPECT_GT(before.size(), 60u);
  run_studies(40);
  for (const auto& [text, steps] : work()) {
    const auto found = before.find(text);
    ASSERT_NE(found, before.end()) << text;
    EXPECT_LE(steps, found->second + found->second / 4 + 20) << text;
  }
}

}  // namespace
}  // namespace autocfg::server
