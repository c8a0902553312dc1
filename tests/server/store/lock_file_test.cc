#include "server/store/lock_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/sqlite/sqlite_store.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

TEST(LockFile, IsInUseUntilItIsReleased) {
  const TempDir directory;
  const std::string path = directory.File("a.lock");
  {
    const auto held = LockFile::Acquire(path, "database a");
    ASSERT_TRUE(held.ok()) << held.status();
    const absl::Status second = LockFile::Acquire(path, "database a").status();
    EXPECT_TRUE(IsInUse(second)) << second;
    EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(second.message()), testing::StartsWith("database a is in use by process "));
  }
  EXPECT_TRUE(LockFile::Acquire(path, "database a").ok());
}

TEST(LockFile, OtherErrorsAreNotThatItIsInUse) {
  EXPECT_FALSE(IsInUse(absl::OkStatus()));
  EXPECT_FALSE(IsInUse(absl::FailedPreconditionError("database a is in use by someone")));
  const absl::Status missing = LockFile::Acquire("/nonexistent/a.lock", "database a").status();
  EXPECT_FALSE(missing.ok());
  EXPECT_FALSE(IsInUse(missing)) << missing;
}

// As a search sees it, which waits for the other process.
TEST(LockFile, ADatabaseThatIsOpenIsInUse) {
  const TempDir directory;
  const std::string path = directory.File("a.db");
  const auto store = OpenSqliteStore(path);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE(IsInUse(OpenSqliteStore(path).status()));
}

}  // namespace
}  // namespace autocfg::server
