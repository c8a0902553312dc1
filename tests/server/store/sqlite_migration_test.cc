// Migration of a file of version 1: all rows remain, its attempts have shares, and running ones continue.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "SQLiteCpp/SQLiteCpp.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/names/names.h"
#include "server/store/sqlite/schema.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/support/build_paths.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two workers of 8 slots. Study 1: a calibration; trials measured at the second attempt, out of memory,
// failed, timed out, one running with 3 ranks, one given back, one with fewer_ranks never attempted. Study 2
// was cancelled while its trial was running.
void WriteVersion1(const std::string& path) {
  std::ifstream in(SourcePath("tests/golden/store_version_1.sql"));
  std::ostringstream sql;
  sql << in.rdbuf();
  ASSERT_FALSE(sql.str().empty());
  SQLite::Database db(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  db.exec(sql.str());
}

class MigrationTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = dir_.File("a.db");
    WriteVersion1(path_);
  }
  void Open() {
    auto store = OpenSqliteStore(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  std::int64_t Count(const std::string& what) {
    SQLite::Database db(path_, SQLite::OPEN_READONLY);
    return db.execAndGet("SELECT count(*) FROM " + what).getInt64();
  }
  // The running leases, as version 1 granted them.
  static v1::ReportTrialRequest MeasuredReport(const std::string& worker, const std::string& lease_id,
                                               std::int64_t token) {
    v1::ReportTrialRequest report;
    report.set_worker(worker);
    report.set_session_epoch(1);
    report.set_lease_id(lease_id);
    report.set_fencing_token(token);
    report.set_attempt(1);
    report.set_request_id(lease_id + "/report");
    report.set_outcome(v1::OUTCOME_MEASURED);
    for (int step = 0; step < 5; ++step) report.mutable_measurement()->add_step_time_s(0.25);
    return report;
  }

  TempDir dir_;
  std::string path_;
  std::unique_ptr<Store> store_;
};

constexpr const char* kRunning = "lease-7-4bc43dd5d7f4b01c";    // study 1, workers/a, until 70
constexpr const char* kCancelled = "lease-9-88db662e122eb018";  // study 2, workers/b, until 74

TEST_F(MigrationTest, KeepsAllRows) {
  const std::vector<std::string> tables = {"studies",    "trials",       "jobs",     "workers",
                                           "attempts",   "measurements", "requests", "refused_reports",
                                           "trial_logs", "calibrations"};
  std::vector<std::int64_t> before;
  for (const std::string& table : tables) before.push_back(Count(table));
  EXPECT_EQ(before[4], 9);
  Open();
  for (std::size_t i = 0; i < tables.size(); ++i) EXPECT_EQ(Count(tables[i]), before[i]) << tables[i];
  EXPECT_EQ(Count("shares"), 9) << "one for each attempt";
  EXPECT_EQ(Count("pragma_foreign_key_check"), 0);
  EXPECT_EQ(Count("pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
  SQLite::Database db(path_, SQLite::OPEN_READONLY);
  EXPECT_EQ(db.execAndGet("PRAGMA user_version").getInt(), static_cast<int>(StoreMigrations().size()));
  EXPECT_EQ(db.execAndGet("SELECT length(out_of_memory) FROM shares WHERE job = 3").getInt(), 2);
}

TEST_F(MigrationTest, ApiAnswersAreUnchanged) {
  Open();
  const auto trials = *store_->ListTrials(1, 0, 100);
  ASSERT_EQ(trials.size(), 7u);
  const v1::TrialState states[] = {
      v1::TRIAL_STATE_MEASURED, v1::TRIAL_STATE_INFEASIBLE, v1::TRIAL_STATE_FAILED, v1::TRIAL_STATE_TIMED_OUT,
      v1::TRIAL_STATE_RUNNING,  v1::TRIAL_STATE_QUEUED,     v1::TRIAL_STATE_QUEUED};
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(trials[i].state(), states[i]) << i + 1;
  ASSERT_EQ(trials[0].attempts_size(), 2);
  EXPECT_EQ(trials[0].attempts(0).state(), v1::TRIAL_STATE_LOST);
  EXPECT_EQ(trials[0].attempts(0).message(), "the worker did not renew its lease");
  EXPECT_EQ(trials[0].attempts(1).worker(), "workers/b");
  EXPECT_THAT(trials[0].attempts(1).workers(), ElementsAre("workers/b"));
  EXPECT_EQ(trials[0].attempts(1).start_time_s(), 42);
  EXPECT_EQ(trials[0].attempts(1).end_time_s(), 43);
  EXPECT_EQ(trials[0].measured().device_s(), 7);
  EXPECT_FALSE(trials[0].measured().has_breakdown_s()) << "older workers recorded none";
  EXPECT_EQ(trials[1].message(), "too much");
  EXPECT_EQ(trials[5].attempts(0).state(), v1::TRIAL_STATE_CANCELLED);
  EXPECT_FALSE(store_->FindTimeline(1, trials[0].plan_text())->has_value()) << "nor a timeline";
  EXPECT_EQ((*store_->GetCalibration(1))->result.device_overhead_bytes(), 4096);
  // 2 x 3 s, 11 s, 7 s as reported, 2 x 1 s, 4 x 1 s twice, 1 s: counted as in version 1.
  EXPECT_EQ(store_->Usage(1)->device_s, 35);
  const auto workers = *store_->ListWorkers("", 10, false);
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_EQ(workers[0].ranks_in_use, 3);
  EXPECT_THAT(workers[0].jobs, ElementsAre("studies/1/trials/5"));
}

TEST_F(MigrationTest, RunningAttemptsContinue) {
  Open();
  EXPECT_EQ(*store_->RenewLease("workers/a", 1, kRunning, 7, 66, 10), v1::LEASE_COMMAND_CONTINUE);
  EXPECT_THAT(*store_->LeasesToStop(), ElementsAre(kCancelled));
  EXPECT_EQ(*store_->RenewLease("workers/b", 1, kCancelled, 9, 66, 10), v1::LEASE_COMMAND_CANCEL);
  EXPECT_EQ(store_->FindShare(kRunning, 7)->job_ranks, 3);
  ASSERT_TRUE(store_->Report(MeasuredReport("workers/a", kRunning, 7), 67).ok());
  EXPECT_EQ(store_->GetTrial(1, 5)->state(), v1::TRIAL_STATE_MEASURED);
  // A report that version 1 accepted is known and accepted again.
  EXPECT_TRUE(store_->Report(MeasuredReport("workers/b", "lease-3-ebdf24aa1b314493", 3), 68).ok());
  EXPECT_EQ(store_->ExpireLeases(80)->size(), 1u) << "the cancelled study's";
  EXPECT_EQ(store_->GetTrial(2, 1)->state(), v1::TRIAL_STATE_CANCELLED);
}

TEST_F(MigrationTest, RunningAttemptsAreLostIfNotRenewed) {
  Open();
  EXPECT_EQ(store_->ExpireLeases(75)->size(), 2u);
  EXPECT_EQ(store_->GetTrial(1, 5)->state(), v1::TRIAL_STATE_QUEUED);
  EXPECT_EQ(store_->Report(MeasuredReport("workers/a", kRunning, 7), 76).code(),
            absl::StatusCode::kFailedPrecondition);
  // Job 5 was lost on host-a, so the other worker gets it: queue order, device and host were migrated.
  const WorkerSession a{"workers/a", 1};
  const WorkerSession b{"workers/b", 1};
  const Assignment first = *store_->LeaseJobs({a, b}, {a, b}, 77, 10);
  ASSERT_EQ(first.leases.size(), 2u);
  EXPECT_EQ(first.leases[0].key.trial, 5);
  EXPECT_EQ(first.leases[0].session, b);
  EXPECT_EQ(first.leases[0].attempt, 2);
  EXPECT_EQ(first.leases[0].fencing_token, 10);
  EXPECT_EQ(first.leases[1].key.trial, 6);
  EXPECT_EQ(first.leases[1].session, a);
}

TEST_F(MigrationTest, FewerRanksJobsAreMigrated) {
  Open();
  ASSERT_TRUE(store_->ExpireLeases(75).ok());
  v1::RegisterWorkerRequest small;
  small.set_worker("workers/small");
  small.set_boot_id("boot");
  small.mutable_inventory()->set_slots(2);
  small.mutable_inventory()->set_device_kind("cpu");
  const WorkerSession session{"workers/small", *store_->RegisterWorker(small, 76)};
  ASSERT_EQ(store_->LeaseJobs({session}, {session}, 77, 10)->leases.at(0).key.trial, 6);
  small.set_worker("workers/other");
  const WorkerSession other{"workers/other", *store_->RegisterWorker(small, 76)};
  const Lease lease = store_->LeaseJobs({other}, {other}, 77, 10)->leases.at(0);
  EXPECT_EQ(lease.key.trial, 7);
  EXPECT_EQ(lease.ranks, 2) << "of 8";
}

TEST_F(MigrationTest, ReaderErrorSaysWhatToDo) {
  const absl::Status status = OpenSqliteStoreReadOnly(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(status.message(), HasSubstr("has version 1, but this program reads version " +
                                          std::to_string(StoreMigrations().size())));
  EXPECT_THAT(status.message(), HasSubstr("to migrate it"));
  EXPECT_EQ(Count("attempts WHERE lease_id IS NOT NULL"), 9) << "and leaves it as it is";
  Open();
  auto reader = OpenSqliteStoreReadOnly(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->ListTrials(1, 0, 100)->size(), 7u);
  EXPECT_EQ((*reader)->ListWorkers("", 10, true)->size(), 2u);
}

TEST_F(MigrationTest, OlderFileIsPrunedAndGivesSpaceBackWhenItIsWrittenAnew) {
  Open();
  const std::int64_t requests = Count("requests");
  EXPECT_EQ(store_->Prune({.requests_s = 10}, 1000)->requests, 0) << "seen for the first time";
  EXPECT_EQ(store_->Prune({.requests_s = 10}, 2000)->requests, requests);
  v1::Study large;
  large.set_fingerprint(std::string(100'000, 'f'));
  const auto made = store_->CreateStudy("", large, 2000);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE(store_->DeleteStudy(*ParseStudyName(made->name())).ok());
  SQLite::Database db(path_, SQLite::OPEN_READONLY);
  const auto mode = [&] { return db.execAndGet("PRAGMA auto_vacuum").getInt(); };
  const auto unused = [&] { return db.execAndGet("PRAGMA freelist_count").getInt(); };
  EXPECT_EQ(mode(), 0);
  EXPECT_FALSE(*store_->GiveBackSpace(/*all=*/false)) << "it cannot";
  EXPECT_GT(unused(), 0);
  EXPECT_FALSE(*store_->GiveBackSpace(/*all=*/true));
  EXPECT_EQ(unused(), 0);
  EXPECT_EQ(mode(), 2);
  EXPECT_TRUE(store_->GetStudy(1).ok());
}

TEST_F(MigrationTest, RequestStoredWithoutVerbMatchesItsStudy) {
  Open();
  store_.reset();
  SQLite::Database(path_, SQLite::OPEN_READWRITE)
      .exec("INSERT INTO requests (request_id, kind, subject) VALUES ('early', 'modify_study', '1')");
  Open();
  const auto pause = [](v1::Study& study) {
    study.set_state(v1::STUDY_STATE_PAUSED);
    return absl::OkStatus();
  };
  StudyEdit extra;
  extra.request_id = "early";
  extra.request_kind = "pause";
  const auto study = store_->ModifyStudy(1, pause, extra);
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->state(), v1::STUDY_STATE_RUNNING) << "it was done already";
  EXPECT_TRUE(absl::IsAlreadyExists(store_->ModifyStudy(2, pause, extra).status()));
}

TEST_F(MigrationTest, DanglingRowsAreDataLossAndFileIsUnchanged) {
  {
    SQLite::Database db(path_, SQLite::OPEN_READWRITE);
    db.exec("PRAGMA foreign_keys = OFF; UPDATE trial_logs SET attempt = 77");
  }
  const absl::Status status = OpenSqliteStore(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(status.message(), HasSubstr(path_));
  EXPECT_EQ(Count("attempts WHERE lease_id IS NOT NULL"), 9);
  SQLite::Database db(path_, SQLite::OPEN_READONLY);
  EXPECT_EQ(db.execAndGet("PRAGMA user_version").getInt(), 1);
}

}  // namespace
}  // namespace autocfg::server
