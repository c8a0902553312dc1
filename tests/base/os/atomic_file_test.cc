// Tests the content on disk and the order of syncs for each way of replacing a file.
#include "base/os/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/support/missing_path.h"

namespace autocfg::base {
namespace {

// Records each sync in order, with the content that `name` had then. Injects the errors that a test sets.
struct Syncs {
  std::vector<std::string> seen;
  std::string name;
  int file_error = 0;
  int directory_error = 0;
};
Syncs* syncs = nullptr;

}  // namespace
}  // namespace autocfg::base

// Replaces the C library's function.
extern "C" int fsync(int fd) {
  using autocfg::base::syncs;
  if (syncs != nullptr) {
    struct stat info {};
    fstat(fd, &info);
    const bool directory = S_ISDIR(info.st_mode);
    syncs->seen.push_back((directory ? "directory, " : "file, ") + autocfg::ReadWhole(syncs->name));
    if (const int error = directory ? syncs->directory_error : syncs->file_error; error != 0) {
      errno = error;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace autocfg::base {
namespace {

class AtomicFileTest : public testing::Test {
 protected:
  AtomicFileTest() {
    syncs_.name = path_;
    syncs = &syncs_;
  }
  ~AtomicFileTest() override { syncs = nullptr; }

  std::error_code Replace(const std::string& content) const {
    AtomicFile file(path_);
    if (const auto error = file.Open(); error) return error;
    if (const auto error = file.Append(content); error) return error;
    return file.Finish();
  }
  std::ptrdiff_t Files() const {
    return std::distance(std::filesystem::directory_iterator(directory_.path()), {});
  }

  const ScratchDirectory directory_;
  const std::string path_ = directory_.Write("best.json", "old");
  Syncs syncs_;
};

TEST_F(AtomicFileTest, SyncsContentThenDirectoryBeforeReturning) {
  EXPECT_EQ(Replace("new"), std::error_code());
  EXPECT_EQ(ReadWhole(path_), "new");
  EXPECT_EQ(syncs_.seen, (std::vector<std::string>{"file, old", "directory, new"}));
  EXPECT_EQ(Files(), 1) << "a temporary file was left behind";
}

TEST_F(AtomicFileTest, AbandonedWriteLeavesNoFile) {
  {
    AtomicFile file(path_);
    ASSERT_EQ(file.Open(), std::error_code());
    ASSERT_EQ(file.Append("half of it"), std::error_code());
    EXPECT_EQ(Files(), 2);
  }
  EXPECT_EQ(Files(), 1);
  EXPECT_EQ(ReadWhole(path_), "old");
}

TEST_F(AtomicFileTest, FailedContentSyncKeepsOldFile) {
  syncs_.file_error = EIO;
  EXPECT_EQ(Replace("new").value(), EIO);
  EXPECT_EQ(ReadWhole(path_), "old");
  EXPECT_EQ(Files(), 1);
}

TEST_F(AtomicFileTest, FailedDirectorySyncIsReported) {
  syncs_.directory_error = EIO;
  EXPECT_EQ(Replace("new").value(), EIO);
  EXPECT_EQ(Files(), 1);
  syncs_.directory_error = EINVAL;  // as from a file system that cannot sync directories
  EXPECT_EQ(Replace("newer"), std::error_code());
  EXPECT_EQ(ReadWhole(path_), "newer");
}

TEST_F(AtomicFileTest, KeepsAnExistingFileIfAsked) {
  AtomicFile file(path_);
  ASSERT_EQ(file.Open(), std::error_code());
  ASSERT_EQ(file.Append("new"), std::error_code());
  EXPECT_EQ(file.Finish(/*replace=*/false).value(), EEXIST);
  EXPECT_EQ(ReadWhole(path_), "old");

  const std::string other = directory_ / "other.json";
  {
    AtomicFile fresh(other);
    ASSERT_EQ(fresh.Open(0600), std::error_code());
    std::ofstream(fresh.temporary()) << "by name";
    EXPECT_EQ(fresh.Finish(/*replace=*/false), std::error_code());
  }
  EXPECT_EQ(ReadWhole(other), "by name");
  EXPECT_EQ(std::filesystem::status(other).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(AtomicFileTest, ConcurrentWritersDoNotCollide) {
  AtomicFile first(path_), second(path_);
  ASSERT_EQ(first.Open(), std::error_code());
  ASSERT_EQ(second.Open(), std::error_code());
  ASSERT_EQ(first.Append("first"), std::error_code());
  ASSERT_EQ(second.Append("second"), std::error_code());
  EXPECT_EQ(first.Finish(), std::error_code());
  EXPECT_EQ(ReadWhole(path_), "first");
  EXPECT_EQ(second.Finish(), std::error_code());
  EXPECT_EQ(ReadWhole(path_), "second");
}

TEST_F(AtomicFileTest, FullDiskIsAnErrorAndKeepsOldFile) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit few{16, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  const std::error_code error = Replace(std::string(1000, 'n'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.value(), EFBIG);
  EXPECT_EQ(ReadWhole(path_), "old");
  EXPECT_EQ(Files(), 1);
}

TEST_F(AtomicFileTest, UnwritableDirectoryIsReported) {
  AtomicFile file(directory_ / "none/best.json");
  EXPECT_EQ(file.Open().value(), ENOENT);
}

TEST_F(AtomicFileTest, FollowsLinksToTheirTarget) {
  const auto link = [&](const std::string& to, const char* from) {
    std::filesystem::create_symlink(to, directory_ / from);
    return std::filesystem::path(directory_ / from);
  };
  const auto second = link("best.json", "second");
  const auto first = link("second", "first");
  const auto dangling = link(Missing("/nonexistent/file"), "dangling");
  const auto circle = link("circle", "circle");
  EXPECT_EQ(FollowLinks(first), path_);
  EXPECT_EQ(FollowLinks(first, [&](const auto& path) { return path == second; }), second);
  EXPECT_EQ(FollowLinks(dangling), Missing("/nonexistent/file"));
  EXPECT_EQ(FollowLinks(circle), circle);
  EXPECT_EQ(FollowLinks(path_), path_);
}

}  // namespace
}  // namespace autocfg::base
