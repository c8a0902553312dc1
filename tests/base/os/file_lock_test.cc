#include "base/os/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "tests/support/temp_dir.h"

namespace autocfg::base {
namespace {

UniqueFd Open(const std::string& path, int flags = O_RDWR) {
  return UniqueFd(::open(path.c_str(), flags | O_CREAT | O_CLOEXEC, 0600));
}

// Another process that runs `run`, says that it has, and then waits to be killed.
class Child {
 public:
  template <typename Run>
  explicit Child(Run run) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const bool done = run();
      char answer = done ? 'y' : 'n';
      (void)!::write(ends[1], &answer, 1);
      while (true) ::pause();
    }
    char answer = 0;
    EXPECT_EQ(::read(ends[0], &answer, 1), 1);
    result_ = answer == 'y';
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Child() { Kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool result() const { return result_; }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  bool result_ = false;
};

class FileLockTest : public testing::Test {
 protected:
  const TempDir dir_;
  const std::string path_ = dir_.File("a.lock");
};

TEST_F(FileLockTest, HasOneOwnerInAProcess) {
  FileLock first(Open(path_));
  ASSERT_TRUE(first.held());
  FileLock second(Open(path_));
  EXPECT_FALSE(second.held());
  EXPECT_EQ(second.error(), EWOULDBLOCK);
  second = std::move(first);
  EXPECT_TRUE(second.held());
  EXPECT_FALSE(FileLock(Open(path_)).held());
  second.Release();
  EXPECT_FALSE(second.held());
  EXPECT_TRUE(FileLock(Open(path_)).held());
}

// SQLite opens and closes the file meanwhile; a POSIX lock would be lost.
TEST_F(FileLockTest, OutlivesOtherDescriptorsOfTheFile) {
  const FileLock lock(Open(path_));
  ASSERT_TRUE(lock.held());
  Open(path_).Reset();
  EXPECT_FALSE(Child([&] { return FileLock(Open(path_)).held(); }).result());
}

TEST_F(FileLockTest, EndsWithTheProcessThatHoldsIt) {
  Child holder([&, lock = FileLock()]() mutable {
    lock = FileLock(Open(path_));
    return lock.held();
  });
  ASSERT_TRUE(holder.result());
  const FileLock refused(Open(path_));
  EXPECT_EQ(refused.error(), EWOULDBLOCK);
  holder.Kill();
  EXPECT_TRUE(FileLock(Open(path_)).held());
}

// The lock belongs to the open file, which a forked child shares.
TEST_F(FileLockTest, IsSharedByAForkedChildThatKeepsTheDescriptor) {
  FileLock lock(Open(path_));
  Child keeps([] { return true; }), closes([&] {
    lock.Release();
    return true;
  });
  EXPECT_FALSE(FileLock(Open(path_)).held()) << "this process has it still";
  lock.Release();
  EXPECT_FALSE(FileLock(Open(path_)).held()) << "the child has it still";
  keeps.Kill();
  EXPECT_TRUE(FileLock(Open(path_)).held());
}

TEST_F(FileLockTest, IsNotKeptByAProgramThatIsStarted) {
  FileLock lock(Open(path_));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t program = ::fork();
  if (program == 0) {
    ::execl("/bin/sleep", "sleep", "60", nullptr);
    ::_exit(1);
  }
  ::close(ends[1]);
  char none = 0;
  EXPECT_EQ(::read(ends[0], &none, 1), 0);  // its end is closed: the program runs
  lock.Release();
  EXPECT_TRUE(FileLock(Open(path_)).held());
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  ::close(ends[0]);
}

TEST_F(FileLockTest, LeavesTheBytesOfSqliteToSqlite) {
  const FileLock lock(Open(path_));
  struct flock bytes {};
  bytes.l_type = F_WRLCK;
  bytes.l_start = FileLock::kByte + 1;
  bytes.l_len = 512;
  const UniqueFd other = Open(path_);
  EXPECT_EQ(::fcntl(other.get(), F_SETLK, &bytes), 0);
}

TEST_F(FileLockTest, SaysWhyItCannotBeHad) {
  EXPECT_EQ(FileLock(Open(dir_.File("missing/a.lock"))).error(), ENOENT);
  EXPECT_EQ(FileLock(Open(path_, O_RDONLY)).error(), EBADF);
}

}  // namespace
}  // namespace autocfg::base
