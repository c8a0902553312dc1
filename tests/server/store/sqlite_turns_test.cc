// Writes that wait at the same time share a transaction and a sync, and know nothing of each other.
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

constexpr int kWriters = 8;

class SqliteTurns : public testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenSqliteStore(path_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    for (int i = 0; i <= kWriters; ++i) {
      v1::Study study;
      study.set_fingerprint("f");
      ids_.push_back(*ParseStudyName(store_->CreateStudy("", study, 100)->name()));
    }
  }

  // Sets the remaining time of a study; `then` is the result of the edit.
  absl::Status Set(std::int64_t study, double eta_s, const absl::Status& then = absl::OkStatus()) {
    return store_
        ->ModifyStudy(study,
                      [&](v1::Study& edited) {
                        edited.set_eta_s(eta_s);
                        return then;
                      })
        .status();
  }
  double Get(std::int64_t study) { return store_->GetStudy(study)->eta_s(); }

  // Runs write(0), ..., write(kWriters - 1) on threads of their own while another write is under way.
  // `before`: called in that one, before its end. Returns the number of syncs after `before`.
  std::int64_t Together(const std::function<void(int)>& write, const std::function<void()>& before) {
    std::atomic<bool> under_way = false;
    std::atomic<int> begun = 0;
    std::thread first([&] {
      const auto edit = [&](v1::Study&) {
        under_way = true;
        while (begun < kWriters) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until they wait, as a rule
        before();
        return absl::OkStatus();
      };
      (void)store_->ModifyStudy(ids_.back(), edit);
    });
    while (!under_way) std::this_thread::yield();
    std::vector<std::thread> threads;
    for (int i = 0; i < kWriters; ++i) {
      threads.emplace_back([&, i] {
        ++begun;
        write(i);
      });
    }
    first.join();
    for (std::thread& thread : threads) thread.join();
    return disk_.failed();
  }
  // Repeats the writes until they have shared syncs.
  void UntilShared(const std::function<void(int)>& write, const std::function<void(int)>& check) {
    // A failure that is none counts the syncs.
    const auto count = [&] { disk_.Fail(FaultyDisk::Op::kSync, 1, SQLITE_OK, FaultyDisk::kForEver); };
    bool shared = false;
    while (!shared) {
      shared = Together(write, count) < kWriters / 2;
      for (int i = 0; i < kWriters; ++i) check(i);
      if (testing::Test::HasFailure()) return;
      ++round_;
    }
  }

  TempDir dir_;
  FaultyDisk disk_{dir_.path().string()};
  std::string path_ = dir_.File("a.db");
  std::unique_ptr<Store> store_;
  std::vector<std::int64_t> ids_;
  int round_ = 1;
};

TEST_F(SqliteTurns, WritesThatWaitShareASync) {
  UntilShared([&](int i) { EXPECT_TRUE(Set(ids_[i], 10 * round_ + i).ok()); },
              [&](int i) { EXPECT_EQ(Get(ids_[i]), 10 * round_ + i); });
}

TEST_F(SqliteTurns, AWriteThatIsUndoneUndoesNoOther) {
  UntilShared(
      [&](int i) {
        const absl::Status then = i % 2 == 0 ? absl::OkStatus() : absl::AbortedError("no");
        EXPECT_EQ(Set(ids_[i], 10 * round_ + i, then), then);
      },
      [&](int i) { EXPECT_EQ(Get(ids_[i]), i % 2 == 0 ? 10 * round_ + i : 0); });
}

TEST_F(SqliteTurns, AWriteThatFailsFailsNoOther) {
  const std::int64_t damaged = ids_[3];
  {
    SQLite::Database other(path_, SQLite::OPEN_READWRITE);
    SQLite::Statement damage(other, "UPDATE studies SET study = x'ff' WHERE id = ?");
    damage.bind(1, damaged);
    EXPECT_EQ(damage.exec(), 1);
  }
  UntilShared(
      [&](int i) {
        const absl::Status status = Set(ids_[i], 10 * round_ + i);
        EXPECT_EQ(status.ok(), ids_[i] != damaged) << status;
        EXPECT_EQ(absl::IsDataLoss(status), ids_[i] == damaged) << status;
      },
      [&](int i) {
        if (ids_[i] == damaged) return;
        EXPECT_EQ(Get(ids_[i]), 10 * round_ + i);
      });
}

TEST_F(SqliteTurns, ASyncThatFailsFailsAll) {
  std::atomic<int> failures = 0;
  const auto write = [&](int i) {
    const absl::Status status = Set(ids_[i], 1);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    if (!status.ok()) ++failures;
  };
  Together(write, [&] { disk_.Fail(FaultyDisk::Op::kSync, 1, SQLITE_IOERR_FSYNC, FaultyDisk::kForEver); });
  EXPECT_EQ(failures, kWriters);
  EXPECT_TRUE(absl::IsUnavailable(store_->Health()));
  disk_.Heal();
  for (int i = 0; i < kWriters; ++i) {
    EXPECT_EQ(Get(ids_[i]), 0) << i;
    EXPECT_TRUE(Set(ids_[i], 2).ok());
    EXPECT_EQ(Get(ids_[i]), 2) << i;
  }
  EXPECT_TRUE(store_->Health().ok());
}

TEST_F(SqliteTurns, ARefusedWriteAnswersItsOwnErrorThoughTheOthersFail) {
  const auto write = [&](int i) {
    const bool refused = i % 2 != 0;
    const absl::Status status = Set(ids_[i], 1, refused ? absl::AbortedError("no") : absl::OkStatus());
    EXPECT_EQ(status.code(), refused ? absl::StatusCode::kAborted : absl::StatusCode::kUnavailable) << status;
  };
  Together(write, [&] { disk_.Fail(FaultyDisk::Op::kSync, 1, SQLITE_IOERR_FSYNC, FaultyDisk::kForEver); });
  disk_.Heal();
  for (int i = 0; i < kWriters; ++i) EXPECT_EQ(Get(ids_[i]), 0) << i;
}

// The first of them would make the others fail with AlreadyExists, had it been stored.
TEST_F(SqliteTurns, NoWriteIsRefusedForOneThatIsUndone) {
  const auto write = [&](int i) {
    v1::Study study;
    study.set_fingerprint(std::to_string(i));
    const absl::Status status = store_->CreateStudy("once", study, 100).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  };
  Together(write, [&] { disk_.Fail(FaultyDisk::Op::kSync, 1, SQLITE_IOERR_FSYNC, FaultyDisk::kForEver); });
  disk_.Heal();
  const auto studies = store_->ListStudies(0, 100);
  ASSERT_TRUE(studies.ok()) << studies.status();
  EXPECT_EQ(studies->size(), ids_.size());
}

}  // namespace
}  // namespace autocfg::server
