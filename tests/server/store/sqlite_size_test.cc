// How large the database grows, and that no statement reads more of it than it needs.
#include <sqlite3.h>

#include <map>
#include <memory>
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

// Rows that each statement of this process stepped over without an index, by its text, since the last clear.
std::map<std::string, int>& Scans() {
  static std::map<std::string, int> scans;
  return scans;
}

int NoteScan(unsigned, void*, void* statement, void*) {
  auto* const finished = static_cast<sqlite3_stmt*>(statement);
  const int rows = sqlite3_stmt_status(finished, SQLITE_STMTSTATUS_FULLSCAN_STEP, /*resetFlg=*/1);
  if (rows > 0) Scans()[sqlite3_sql(finished)] += rows;
  return SQLITE_OK;
}

int Trace(sqlite3* db, char**, const sqlite3_api_routines*) {
  return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, NoteScan, nullptr);
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
    if (outcome == v1::OUTCOME_MEASURED) {
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

TEST_F(SqliteSizeTest, NoStatementScans) {
  constexpr int kTrials = 60;
  sqlite3_auto_extension(reinterpret_cast<void (*)()>(Trace));
  store_.reset();
  auto store = OpenSqliteStore(path_);
  sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(Trace));
  ASSERT_TRUE(store.ok()) << store.status();
  store_ = *std::move(store);
  const std::int64_t first = NewStudy(), second = NewStudy();
  for (const std::int64_t study : {first, second}) {
    for (int i = 0; i < kTrials; ++i) Enqueue(study, i);
    for (int i = 0; i < kTrials; ++i) {
      const Lease lease = Take();
      ASSERT_TRUE(
          store_->RenewLease("workers/a", epoch_, lease.lease_id, lease.fencing_token, 10, 1000).ok());
      ASSERT_TRUE(Report(lease, v1::OUTCOME_MEASURED).ok());
    }
    ASSERT_TRUE(SetStudyState(*store_, study, v1::STUDY_STATE_DONE).ok());
  }
  Scans().clear();
  const std::int64_t third = NewStudy();
  Enqueue(third, 1);
  const Lease lease = Take();
  ASSERT_TRUE(store_->LeasesToStop().ok());
  ASSERT_TRUE(store_->ExpireLeases(11).ok());
  ASSERT_TRUE(store_->FindShare(lease.lease_id, lease.fencing_token).ok());
  ASSERT_TRUE(Report(lease, v1::OUTCOME_MEASURED).ok());
  ASSERT_TRUE(store_->GetTrial(third, 1).ok());
  ASSERT_TRUE(store_->ChangesAfter(third, 0, 10).ok());
  ASSERT_TRUE(SetStudyState(*store_, third, v1::STUDY_STATE_DONE).ok());
  ASSERT_TRUE(store_->DeleteStudy(first).ok());
  for (const auto& [text, rows] : Scans()) EXPECT_LT(rows, kTrials / 2) << text;
  EXPECT_EQ(store_->ListTrials(second, 0, 2 * kTrials)->size(), static_cast<std::size_t>(kTrials));
}

}  // namespace
}  // namespace autocfg::server
