#include "server/store/lock_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "server/store/sqlite/sqlite_store.h"
#include "tests/support/missing_path.h"
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

TEST(LockFile, OwnerIsTheProcessThatHoldsIt) {
  const TempDir directory;
  const std::string path = directory.File("a.lock");
  EXPECT_EQ(LockOwner(path), std::nullopt);
  {
    const auto held = LockFile::Acquire(path, "database a");
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(LockOwner(path), getpid());
    const auto other = LockFile::Acquire(directory.File("b.lock"), "database b");
    std::ofstream(directory.File("c.lock")) << getpid();
    EXPECT_EQ(LockOwner(directory.File("c.lock")), std::nullopt) << "a number that is left";
  }
  EXPECT_EQ(LockOwner(path), std::nullopt);
  EXPECT_TRUE(LockFile::Acquire(path, "database a").ok()) << "asking takes no lock";
}

TEST(LockFile, OtherErrorsAreNotThatItIsInUse) {
  EXPECT_FALSE(IsInUse(absl::OkStatus()));
  EXPECT_FALSE(IsInUse(absl::FailedPreconditionError("database a is in use by someone")));
  const absl::Status missing = LockFile::Acquire(Missing("/nonexistent/a.lock"), "database a").status();
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
