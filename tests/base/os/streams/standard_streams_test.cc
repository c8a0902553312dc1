#include "base/os/streams/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <iostream>

namespace autocfg::base {
namespace {

// Runs `steps` in a process of its own; true if it returns true there.
bool HoldsInAProcess(const std::function<bool()>& steps) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(steps() ? 0 : 1);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(StandardStreams, FilesDoNotTakeTheirPlace) {
  EXPECT_TRUE(HoldsInAProcess([] {
    for (const int fd : {0, 1, 2}) ::close(fd);
    FillStandardDescriptors();
    char byte = 'x';
    bool fails = ::read(0, &byte, 1) == -1 && errno == EBADF;
    for (const int fd : {1, 2}) fails = fails && ::write(fd, &byte, 1) == -1 && errno == EBADF;
    return fails && ::open("/dev/null", O_RDWR) > 2;
  }));
  EXPECT_TRUE(HoldsInAProcess([] {
    ::close(1);
    FillStandardDescriptors();
    return ::open("/dev/null", O_RDWR) > 2;
  })) << "only one is closed";
}

TEST(StandardStreams, OpenOnesStay) {
  EXPECT_TRUE(HoldsInAProcess([] {
    int ends[2];
    if (::pipe(ends) != 0 || ::dup2(ends[1], 1) < 0) return false;
    FillStandardDescriptors();
    char byte = 'x';
    return ::write(1, "y", 1) == 1 && ::read(ends[0], &byte, 1) == 1 && byte == 'y';
  }));
}

TEST(StandardStreams, OutputThatIsLostIsNoticed) {
  const auto prints = [](const char* path) {
    return HoldsInAProcess([path] {
      if (::dup2(::open(path, O_WRONLY), 1) < 0) return false;
      std::cout << "words" << std::endl;
      return FlushStandardOutput();
    });
  };
  EXPECT_TRUE(prints("/dev/null"));
  EXPECT_FALSE(prints("/dev/full"));
}

}  // namespace
}  // namespace autocfg::base
