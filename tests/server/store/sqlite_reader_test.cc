// Reading a database without its lock: beside a writer, after a killed writer, and without write permission.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "SQLiteCpp/SQLiteCpp.h"
#include "gtest/gtest.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unprivileged.h"

namespace autocfg::server {
namespace {

v1::Study SampleStudy(const std::string& fingerprint) {
  v1::Study study;
  study.set_fingerprint(fingerprint);
  return study;
}

std::size_t Count(Store& store) {
  const auto studies = store.ListStudies(0, 100);
  EXPECT_TRUE(studies.ok()) << studies.status();
  return studies.ok() ? studies->size() : 0;
}

TEST(SqliteReader, SeesCommitsWithoutDisturbingTheWriter) {
  TempDir dir;
  const std::string path = dir.File("a b%.db");
  auto writer = OpenSqliteStore(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->CreateStudy("", SampleStudy("x"), 1).ok());
  auto first = OpenSqliteStoreReadOnly(path);
  auto second = OpenSqliteStoreReadOnly(path);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  for (std::size_t n = 2; n < 6; ++n) {
    ASSERT_TRUE((*writer)->CreateStudy("", SampleStudy("x"), 1).ok());
    EXPECT_EQ(Count(**first), n);
    EXPECT_EQ(Count(**second), n);
  }
  EXPECT_TRUE(absl::IsPermissionDenied((*first)->CreateStudy("", SampleStudy("y"), 1).status()));
  // A search starts while readers are active.
  writer->reset();
  auto next = OpenSqliteStore(path);
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_TRUE((*next)->CreateStudy("", SampleStudy("x"), 1).ok());
  EXPECT_EQ(Count(**first), 6u);
}

TEST(SqliteReader, NeverCheckpoints) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  auto writer = OpenSqliteStore(path);
  ASSERT_TRUE((*writer)->CreateStudy("", SampleStudy("x"), 1).ok());
  // As after a kill: the log exists and no process has the file open.
  const std::string copy = dir.File("copy.db");
  for (const char* suffix : {"", "-wal"}) std::filesystem::copy_file(path + suffix, copy + suffix);
  const auto log_bytes = std::filesystem::file_size(copy + "-wal");
  ASSERT_GT(log_bytes, 0u);
  const auto file_bytes = std::filesystem::file_size(copy);
  {
    auto reader = OpenSqliteStoreReadOnly(copy);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(Count(**reader), 1u);
  }
  EXPECT_EQ(std::filesystem::file_size(copy + "-wal"), log_bytes);
  EXPECT_EQ(std::filesystem::file_size(copy), file_bytes);
  auto next = OpenSqliteStore(copy);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(Count(**next), 1u);
}

TEST(SqliteReader, WorksWithoutWritePermission) {
  TempDir dir;
  const std::string path = dir.File("a.db");
  ASSERT_TRUE((*OpenSqliteStore(path))->CreateStudy("", SampleStudy("x"), 1).ok());
  ASSERT_EQ(chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(chmod(dir.path().c_str(), 0555), 0);
  const auto reader = [&] {
    const Unprivileged user;
    return OpenSqliteStoreReadOnly(path);
  }();
  chmod(dir.path().c_str(), 0755);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(Count(**reader), 1u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 2) << "the file and its lock";
}

TEST(SqliteReader, ReportsErrors) {
  TempDir dir;
  EXPECT_TRUE(absl::IsNotFound(OpenSqliteStoreReadOnly(dir.File("none.db")).status()));
  EXPECT_FALSE(std::filesystem::exists(dir.File("none.db")));
  EXPECT_TRUE(absl::IsInvalidArgument(OpenSqliteStoreReadOnly(dir.path()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(OpenSqliteStoreReadOnly("/dev/null").status()));
  std::ofstream(dir.File("text.db")) << std::string(5000, 'x');
  EXPECT_TRUE(absl::IsDataLoss(OpenSqliteStoreReadOnly(dir.File("text.db")).status()));
  { const std::ofstream made(dir.File("empty.db")); }
  auto empty = OpenSqliteStoreReadOnly(dir.File("empty.db"));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(Count(**empty), 0u);
  EXPECT_EQ(std::filesystem::file_size(dir.File("empty.db")), 0u);
  {
    SQLite::Database other(dir.File("other.db"), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    other.exec("CREATE TABLE t (x)");
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenSqliteStoreReadOnly(dir.File("other.db")).status()));
  ASSERT_TRUE(OpenSqliteStore(dir.File("newer.db")).ok());
  {
    SQLite::Database newer(dir.File("newer.db"), SQLite::OPEN_READWRITE);
    newer.exec("PRAGMA user_version = 9999");
  }
  const auto status = OpenSqliteStoreReadOnly(dir.File("newer.db")).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_NE(status.message().find("9999"), std::string::npos) << status;
}

}  // namespace
}  // namespace autocfg::server
