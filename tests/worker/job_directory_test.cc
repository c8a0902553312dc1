// Shared memory left by ranks is deleted with their job; that of a killed launcher, by the next job.
#include "worker/launcher/job_directory.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class JobDirectoryTest : public ::testing::Test {
 protected:
  JobDirectoryTest() {
    std::string path = ::testing::TempDir() + "/job_directory_XXXXXX";
    parent_ = ::mkdtemp(path.data());
  }
  ~JobDirectoryTest() override { fs::remove_all(parent_); }

  int Entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(parent_), fs::directory_iterator()));
  }

  std::string parent_;
};

TEST_F(JobDirectoryTest, IsDeletedWithItsContent) {
  {
    const JobDirectory directory(parent_);
    ASSERT_TRUE(fs::is_directory(directory.path()));
    std::ofstream(directory.path() + "/segment") << "left";
    EXPECT_THAT(directory.Environment(), ElementsAre("UCX_POSIX_DIR=" + directory.path()));
  }
  EXPECT_EQ(Entries(), 0);
}

TEST_F(JobDirectoryTest, KeepsDirectoriesInUse) {
  const JobDirectory first(parent_), second(parent_);
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(fs::is_directory(first.path()));
  EXPECT_EQ(Entries(), 2);
}

TEST_F(JobDirectoryTest, NextJobRemovesDirectoriesOfKilledLaunchers) {
  const pid_t child = ::fork();
  if (child == 0) {
    const JobDirectory directory(parent_);
    std::ofstream(directory.path() + "/segment") << "left";
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(Entries(), 1);
  const JobDirectory directory(parent_);
  EXPECT_EQ(Entries(), 1) << "its own alone";
}

TEST_F(JobDirectoryTest, MissingParentMeansNoDirectory) {
  const JobDirectory directory(parent_ + "/missing");
  EXPECT_EQ(directory.path(), "");
  EXPECT_THAT(directory.Environment(), IsEmpty());
}

TEST_F(JobDirectoryTest, UsersSettingTakesPrecedence) {
  ::setenv("UCX_POSIX_DIR", "/somewhere", 1);
  const JobDirectory directory(parent_);
  EXPECT_THAT(directory.Environment(), IsEmpty());
  ::unsetenv("UCX_POSIX_DIR");
}

}  // namespace
}  // namespace autocfg::worker
