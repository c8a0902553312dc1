// Renewals of leases in a file: they write nothing until the stored time has run out, and no lease is lost
// with them, whatever the disk does.
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/store/study_edits.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

class SqliteRenewals : public testing::Test {
 protected:
  void SetUp() override {
    Open();
    v1::RegisterWorkerRequest worker;
    worker.set_worker("workers/a");
    worker.set_boot_id("b");
    worker.mutable_inventory()->set_slots(4);
    epoch_ = *store_->RegisterWorker(worker, 100);
    v1::Study study;
    study.set_fingerprint("f");
    const std::int64_t id = *ParseStudyName(store_->CreateStudy("", study, 100)->name());
    ASSERT_TRUE(SetStudyState(*store_, id, v1::STUDY_STATE_RUNNING).ok());
    v1::Trial trial;
    trial.set_plan_text("tp=1");
    v1::Job job;
    job.set_ranks(1);
    job.mutable_train()->set_steps(2);
    ASSERT_TRUE(store_->EnqueueTrial(id, trial, job, 1).ok());
    lease_ = store_->LeaseJobs({{"workers/a", epoch_}}, {{"workers/a", epoch_}}, 200, 10)->leases.at(0);
  }
  void Open() {
    store_.reset();
    auto store = OpenSqliteStore(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  absl::Status Renew(double now_s) {
    return store_->RenewLease("workers/a", epoch_, lease_.lease_id, lease_.fencing_token, now_s, 10).status();
  }
  bool Held() { return store_->FindShare(lease_.lease_id, lease_.fencing_token).ok(); }

  TempDir dir_;
  FaultyDisk disk_{dir_.path().string()};
  std::string path_ = dir_.File("a.db");
  std::unique_ptr<Store> store_;
  std::int64_t epoch_ = 0;
  Lease lease_;
};

TEST_F(SqliteRenewals, WriteNothingUntilTheStoredTimeHasRunOut) {
  SQLite::Database other(path_, SQLite::OPEN_READONLY);
  const auto commits = [&] { return other.execAndGet("PRAGMA data_version").getInt(); };
  const auto stored = [&] { return other.execAndGet("SELECT expires_s FROM shares").getDouble(); };
  const int before = commits();
  for (int i = 0; i < 90; ++i) {
    ASSERT_TRUE(Renew(200 + 0.1 * i).ok());
    ASSERT_EQ(store_->ExpireLeases(200 + 0.1 * i)->size(), 0u);
  }
  EXPECT_EQ(commits(), before);
  EXPECT_EQ(stored(), 210);
  ASSERT_TRUE(Renew(210).ok());
  EXPECT_EQ(store_->ExpireLeases(210)->size(), 0u);
  EXPECT_NE(commits(), before);
  EXPECT_EQ(stored(), 220);
}

TEST_F(SqliteRenewals, SurviveARestartThatGrantsLeasesAnew) {
  ASSERT_TRUE(Renew(209).ok());
  Open();  // the file says 210
  EXPECT_EQ(*store_->GrantAnew(215, 10), 1);
  EXPECT_EQ(store_->ExpireLeases(224.9)->size(), 0u);
  EXPECT_TRUE(Held());
  EXPECT_EQ(store_->ExpireLeases(225)->size(), 1u);
}

TEST_F(SqliteRenewals, LoseNoLeaseOnAFullDisk) {
  disk_.Fail(FaultyDisk::Op::kWrite, 1, SQLITE_FULL, FaultyDisk::kForEver);
  for (double now_s = 205; now_s < 300; now_s += 5) {
    EXPECT_TRUE(Renew(now_s).ok()) << now_s;
    const auto ended = store_->ExpireLeases(now_s + 4);
    EXPECT_EQ(IsNoSpace(ended.status()), now_s + 4 >= 210) << now_s << ": " << ended.status();
  }
  EXPECT_GT(disk_.failed(), 0);
  disk_.Heal();
  EXPECT_EQ(store_->ExpireLeases(301)->size(), 0u);
  EXPECT_TRUE(Held());
  EXPECT_EQ(store_->ExpireLeases(305)->size(), 1u) << "renewed at 295";
}

}  // namespace
}  // namespace autocfg::server
