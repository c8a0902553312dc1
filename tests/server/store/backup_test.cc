// Copies of a database: one snapshot beside a busy writer, or an error and no file.
#include "server/store/sqlite/backup.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/inode_lock.h"
#include "server/store/sqlite/schema.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/store/study_edits.h"
#include "tests/support/build_paths.h"
#include "tests/support/missing_path.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unprivileged.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

std::string Bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

class BackupTest : public testing::Test {
 protected:
  // Creates the database with studies of a MiB each. A copy takes more than one step from nine on.
  void Fill(int studies) {
    store_ = *OpenSqliteStore(database_);
    v1::Study study;
    study.set_fingerprint("f");
    study.mutable_spec()->mutable_model()->set_name(std::string(1 << 20, 'm'));
    for (int i = 0; i < studies; ++i) ASSERT_TRUE(store_->CreateStudy("", study, 1).ok());
  }
  void Close() { store_.reset(); }

  // Expects an error with these words, and no other file than the given ones.
  void ExpectRefused(const std::string& output, absl::StatusCode code, const std::string& words,
                     const BackupOptions& options = {}) {
    const auto before = Names();
    const absl::Status status = BackUpSqlite(database_, output, options).status();
    EXPECT_EQ(status.code(), code) << output << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr(words));
    EXPECT_THAT(status.message(), testing::Not(HasSubstr("\n")));
    EXPECT_EQ(Names(), before);
  }
  // Without the log and its index, which each reader of the database creates.
  std::set<std::string> Names() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path())) {
      const std::string path = entry.path();
      if (path != database_ + "-wal" && path != database_ + "-shm") names.insert(entry.path().filename());
    }
    return names;
  }
  static std::int64_t Value(const std::string& path, const std::string& query) {
    SQLite::Database db(path, SQLite::OPEN_READONLY);
    return db.execAndGet(query).getInt64();
  }

  TempDir dir_;
  const std::string database_ = dir_.File("a b%?#.db");
  const std::string output_ = dir_.File("copy of it.db");
  std::unique_ptr<Store> store_;
};

TEST_F(BackupTest, IsOneSnapshotBesideABusyWriter) {
  Fill(30);
  std::atomic<bool> stop{false};
  std::atomic<int> commits{0};
  // Each transaction writes a trial, its job, and the study's count of both.
  std::thread writer([&] {
    v1::Job job;
    job.set_ranks(1);
    job.mutable_train()->set_steps(1);
    while (!stop) {
      v1::Trial trial;
      trial.set_plan_text(fmt::format("plan {}", commits.load()));
      if (!store_->EnqueueTrial(1, trial, job, 1).ok()) break;
      ++commits;
    }
  });
  while (commits == 0) std::this_thread::yield();
  int looks = 0;
  const int before = commits;
  const auto backup = BackUpSqlite(database_, output_, {.stop = [&] {
                                     // A commit after each step: a copy that started again each time would
                                     // not end.
                                     for (const int seen = commits; commits == seen;)
                                       std::this_thread::yield();
                                     return ++looks > 100;
                                   }});
  const int after = commits;
  stop = true;
  writer.join();
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_GT(looks, 4);
  EXPECT_EQ(backup->studies, 30);
  EXPECT_EQ(backup->version, static_cast<std::int64_t>(StoreMigrations().size()));
  EXPECT_EQ(backup->database, std::filesystem::canonical(database_));
  EXPECT_EQ(static_cast<std::uintmax_t>(backup->bytes), std::filesystem::file_size(output_));
  EXPECT_EQ(std::filesystem::status(output_).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::int64_t trials = Value(output_, "SELECT count(*) FROM trials");
  EXPECT_GE(trials, before);
  EXPECT_LT(trials, after) << "nothing that was committed meanwhile";
  EXPECT_EQ(Value(output_, "SELECT count(*) FROM jobs"), trials);
  EXPECT_EQ(Value(output_, "SELECT next_trial FROM studies WHERE id = 1"), trials + 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}), 5)
      << "reading the copy creates no files beside it";
  // It is a database like any other.
  auto restored = OpenSqliteStore(output_);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ((*restored)->ListStudies(0, 100)->size(), 30u);
}

TEST_F(BackupTest, CopiesWhatOnlyTheLogHolds) {
  Fill(1);
  // As after a kill: the log exists and no process has the file open.
  const std::string killed = dir_.File("killed.db");
  for (const char* suffix : {"", "-wal"}) std::filesystem::copy_file(database_ + suffix, killed + suffix);
  const std::string log = Bytes(killed + "-wal");
  ASSERT_GT(log.size(), 1u << 20);
  const std::string file = Bytes(killed);
  const auto backup = BackUpSqlite(killed, output_);
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_EQ(backup->studies, 1);
  EXPECT_TRUE(Bytes(killed + "-wal") == log) << "the database is only read";
  EXPECT_TRUE(Bytes(killed) == file);
}

TEST_F(BackupTest, CopiesAnOlderVersionAsItIs) {
  SQLite::Database(database_, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec(Bytes(SourcePath("tests/golden/store_version_1.sql")));
  const auto backup = BackUpSqlite(database_, output_);
  ASSERT_TRUE(backup.ok()) << backup.status();
  EXPECT_EQ(backup->version, 1);
  EXPECT_EQ(Value(output_, "PRAGMA user_version"), 1);
  EXPECT_EQ((*OpenSqliteStore(output_))->ListTrials(1, 0, 100)->size(), 7u);
}

TEST_F(BackupTest, ReplacesAFileOnlyIfAsked) {
  Fill(1);
  std::ofstream(output_) << "old";
  ExpectRefused(output_, absl::StatusCode::kAlreadyExists, "exists; name another file, or replace it");
  EXPECT_EQ(Bytes(output_), "old");
  std::filesystem::create_symlink(output_, dir_.File("link.db"));
  ASSERT_TRUE(BackUpSqlite(database_, dir_.File("link.db"), {.replace = true}).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(dir_.File("link.db")));
  EXPECT_EQ(Value(output_, "SELECT count(*) FROM studies"), 1);
}

TEST_F(BackupTest, NeverReplacesADatabaseInUse) {
  Fill(1);
  const absl::StatusCode invalid = absl::StatusCode::kInvalidArgument;
  const BackupOptions force{.replace = true};
  ExpectRefused(database_, invalid, "is the database itself", force);
  std::filesystem::create_hard_link(database_, dir_.File("hard.db"));
  std::filesystem::create_symlink(database_, dir_.File("soft.db"));
  for (const char* name : {"hard.db", "soft.db"})
    ExpectRefused(dir_.File(name), invalid, "is the database itself", force);
  for (const char* suffix : {"-wal", "-shm", ".lock", ".sock"})
    ExpectRefused(database_ + suffix, invalid, "belongs to the database", force);
  auto other = OpenSqliteStore(dir_.File("other.db"));
  ASSERT_TRUE(other.ok()) << other.status();
  ExpectRefused(dir_.File("other.db"), invalid, "is a database in use", force);
  // Whoever opened it first has no log yet.
  const auto held = InodeLock::Acquire(dir_.File("third.db"));
  ASSERT_TRUE(held.ok());
  ExpectRefused(dir_.File("third.db"), invalid, "is a database in use", force);
  std::filesystem::create_hard_link(database_ + "-wal", dir_.File("hard log"));
  ExpectRefused(dir_.File("hard log"), invalid, "belongs to the database", force);
  std::ofstream(dir_.File("gone.db-wal")) << "left";
  ExpectRefused(dir_.File("gone.db"), invalid, "the log of another database");
  EXPECT_EQ(store_->ListStudies(0, 10)->size(), 1u);
}

TEST_F(BackupTest, RefusesWhatItCannotWrite) {
  Fill(1);
  std::filesystem::create_directory(dir_.File("directory"));
  ASSERT_EQ(mkfifo(dir_.File("pipe").c_str(), 0600), 0);
  const absl::StatusCode invalid = absl::StatusCode::kInvalidArgument;
  ExpectRefused("", invalid, "empty file name");
  ExpectRefused(dir_.File("directory"), invalid, "is a directory", {.replace = true});
  ExpectRefused(dir_.File("pipe"), invalid, "is not a regular file", {.replace = true});
  ExpectRefused("/dev/null", invalid, "is not a regular file", {.replace = true});
  // As /dev/stdout is a link to a pipe, whose target is not a path.
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  std::filesystem::create_symlink(fmt::format("/proc/self/fd/{}", ends[1]), dir_.File("stdout"));
  ExpectRefused(dir_.File("stdout"), invalid, "is not a regular file");
  for (const int end : ends) close(end);
  ExpectRefused(dir_.File("nowhere/copy.db"), absl::StatusCode::kNotFound, "existing directory");
  ExpectRefused(Missing("/proc/nonexistent.db"), absl::StatusCode::kNotFound, "cannot be written");
}

TEST_F(BackupTest, RefusesWhatIsNoDatabase) {
  ExpectRefused(output_, absl::StatusCode::kNotFound, "cannot be read");
  { const std::ofstream made(database_); }
  ExpectRefused(output_, absl::StatusCode::kFailedPrecondition, "there is nothing to back up");
  std::ofstream(database_) << std::string(5000, 'x');
  ExpectRefused(output_, absl::StatusCode::kDataLoss, "is not a database of autocfg");
  std::filesystem::remove(database_);
  {
    SQLite::Database other(database_, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    other.exec("CREATE TABLE t (x)");
  }
  ExpectRefused(output_, absl::StatusCode::kFailedPrecondition, "of another program");
  std::filesystem::remove(database_);
  Fill(1);
  Close();
  SQLite::Database(database_, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 9999");
  ExpectRefused(output_, absl::StatusCode::kFailedPrecondition, "has version 9999");
}

TEST_F(BackupTest, ADamagedDatabaseIsAnErrorAndNoBackup) {
  Fill(20);
  Close();
  {
    SQLite::Database db(database_, SQLite::OPEN_READWRITE);
    db.exec("UPDATE studies SET fingerprint = 'g' WHERE id > 2");
    (void)db.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  const auto root =
      Value(database_, "SELECT rootpage FROM sqlite_master WHERE name = 'studies_by_fingerprint'");
  std::fstream file(database_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp((root - 1) * 4096);
  file << std::string(3000, 'x');
  file.close();
  std::ofstream(output_) << "old";
  ExpectRefused(output_, absl::StatusCode::kDataLoss, "no backup was written", {.replace = true});
  EXPECT_TRUE(Bytes(output_) == "old");
}

TEST_F(BackupTest, StopsWhenAsked) {
  Fill(20);
  int looks = 0;
  std::set<std::string> seen;
  ExpectRefused(output_, absl::StatusCode::kCancelled, "stopped", {.stop = [&] {
                  seen = Names();
                  return ++looks == 3;
                }});
  EXPECT_EQ(seen.size(), Names().size() + 1) << "it had begun";
  // After three steps: during the check of the copy, or before the copy gets its name.
  looks = 0;
  ExpectRefused(output_, absl::StatusCode::kCancelled, "stopped", {.stop = [&] { return ++looks > 3; }});
}

TEST_F(BackupTest, AFullDiskIsAnErrorAndLeavesNothing) {
  Fill(2);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit few{1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  ExpectRefused(output_, absl::StatusCode::kFailedPrecondition, "File too large; free some space");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
}

// Without the right to write beside the file, it is read without locks.
TEST_F(BackupTest, ReadsWithoutWritePermission) {
  const TempDir elsewhere;
  Fill(20);
  Close();
  ASSERT_EQ(chmod(database_.c_str(), 0444), 0);
  ASSERT_EQ(chmod(dir_.path().c_str(), 0555), 0);
  ASSERT_EQ(chmod(elsewhere.path().c_str(), 0777), 0);
  const auto back_up = [&](const BackupOptions& options) {
    const Unprivileged user;
    return BackUpSqlite(database_, elsewhere.File("copy.db"), options).status();
  };
  EXPECT_TRUE(back_up({}).ok());
  EXPECT_EQ(Value(elsewhere.File("copy.db"), "SELECT count(*) FROM studies"), 20);
  // Somebody who may write changes the file meanwhile.
  const auto touch = [&] { return utimes(database_.c_str(), nullptr); };
  const absl::Status changed = back_up({.replace = true, .stop = [&] {
                                          if (IsRoot()) {
                                            EXPECT_EQ(touch(), -1) << "the copy is made with root's rights";
                                          }
                                          Unprivileged::AsRoot([&] { EXPECT_EQ(touch(), 0); });
                                          return false;
                                        }});
  chmod(dir_.path().c_str(), 0755);
  EXPECT_EQ(changed.code(), absl::StatusCode::kUnavailable) << changed;
  EXPECT_THAT(changed.message(), HasSubstr("was changed"));
}

}  // namespace
}  // namespace autocfg::server
